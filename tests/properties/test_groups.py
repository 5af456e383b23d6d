"""Whatever members do in whatever order: the log alone tells what was promised, and everybody is answered once."""

from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.coordination.classic_group import Group, Phase
from hightide.wire.messages.join_group import JoinGroupResponse
from tests.unit.coordination.desks import GROUP, Desk

INSTANCES = (None, None, "s", "t")
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["join", "sync", "beat", "leave", "commit", "wait", "refuse", "crash"]), st.integers(0, 7)
    ),
    max_size=60,
)


class Crowd:
    """Members that act at random; each remembers what it was told."""

    def __init__(self) -> None:
        self.desk = Desk()
        self.ids = [""] * 8
        self.joins: dict[int, int] = {}

    def act(self, action: str, number: int) -> None:
        desk, instance = self.desk, INSTANCES[number % 4]
        for asked, who in list(self.joins.items()):
            told = desk.answers.get(asked)
            if isinstance(told, JoinGroupResponse):
                del self.joins[asked]
                self.ids[who] = "" if told.error_code not in (0, 79, 27) else told.member_id
        match action:
            case "join":
                metadata = {"range": b"%d" % (number % 3), "sticky": b""}
                self.joins[desk.join(self.ids[number], instance=instance, protocols=metadata)] = number
            case "sync" if GROUP in desk.machine.groups:
                everybody = {each: each.encode() for each in desk.group.members}
                desk.sync(self.ids[number], everybody, instance=instance)
            case "beat":
                desk.beat(self.ids[number], instance=instance)
            case "leave":
                desk.ask_to_leave(self.ids[number])
            case "commit":
                generation = desk.group.generation if GROUP in desk.machine.groups else -1
                if not desk.refuses:
                    desk.commit(number, self.ids[number], generation, instance=instance, partition=number)
            case "wait":
                desk.pass_time(number * 4.0)
            case "refuse":
                desk.refuses = number == 0
            case "crash" if not desk.refuses:
                self.desk = desk.reloaded()
                self.joins.clear()


def check(group: Group) -> None:
    waiting = [member for member in group.members.values() if member.join_caller is not None]
    assert group.joined == len(waiting)
    for name, count in group.supported.items():
        assert count == sum(name in member.protocols for member in group.members.values())
    instances = {each.instance_id: each.member_id for each in group.members.values() if each.instance_id is not None}
    assert group.instances == instances
    assert (group.leader in group.members) if group.members else True
    if group.phase in (Phase.STABLE, Phase.EMPTY):
        assert not waiting
    if group.phase is Phase.EMPTY:
        assert not group.members
    if group.phase is not Phase.COMPLETING:
        assert all(member.sync_caller is None for member in group.members.values())


Promised = tuple[object, tuple[object, ...] | None]


def stored(desk: Desk) -> dict[str, Promised]:
    """What must be the same after a crash: everything that anybody was promised."""
    return {
        group.group_id: (
            group.offsets,
            (group.generation, group.leader, {each.member_id: each.assignment for each in group.members.values()})
            if group.phase is Phase.STABLE
            else None,
        )
        for group in desk.machine.groups.values()
        if group.offsets or group.phase is Phase.STABLE
    }


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_the_log_alone_tells_what_was_promised(steps: list[tuple[str, int]]) -> None:
    crowd = Crowd()
    for action, number in steps:
        crowd.act(action, number)
        for group in crowd.desk.machine.groups.values():
            check(group)
        again = stored(crowd.desk.reloaded())
        for group_id, promised in stored(crowd.desk).items():
            # What is in doubt here (a rebalance under way) is still what it was there.
            offsets, generation = promised
            assert again[group_id][0] == offsets
            if generation is not None:
                assert again[group_id][1] == generation


@settings(max_examples=60, deadline=None)
@given(STEPS)
def test_left_alone_a_group_comes_to_rest(steps: list[tuple[str, int]]) -> None:
    crowd = Crowd()
    for action, number in steps:
        crowd.act(action, number)
    crowd.desk.refuses = False
    crowd.desk.pass_time(1000)
    for group in crowd.desk.machine.groups.values():
        assert group.phase is Phase.EMPTY, "nobody was heard of for a long time"
    assert len(crowd.desk.machine.classic.timers) == 0
