"""A group under faults at level 0: three brokers with the coordinator's log, members that come and go, virtual time.

The network delays, loses and repeats messages; brokers crash, are cut off with some of the members, lead in turn;
members stop, die, leave, and static ones are started twice. Everything members were told goes into a history, and K16
judges it; after healing the group must come to rest, with everything owned once.
"""

from random import Random
from typing import NamedTuple

from hightide.rules import ALL_ON, Rules
from hightide.sim.history import groups
from hightide.sim.history.recorder import History
from hightide.sim.level0.group_broker import GroupBroker
from hightide.sim.level0.group_member import PARTITIONS, TOPIC, Call, GroupMember, Life
from hightide.sim.level0.kernel import Kernel
from hightide.types import TopicPartition

BROKERS = (1, 2, 3)
SESSION_SECONDS, LEASE_SECONDS = 3.0, 2.85
FETCH_SECONDS = (0.005, 0.08)
COMMITS_WANTED = 30
HEAL_SECONDS = 60.0


class GroupRun(NamedTuple):
    """What became of one seed."""

    seed: int
    digest: str
    events: int
    seconds: float
    commits: int
    generations: int
    leader_changes: int
    faults: dict[str, int]
    problems: list[str]

    @property
    def counts(self) -> bool:
        """Whether enough happened to learn from."""
        return self.commits >= COMMITS_WANTED and self.generations > 2 and bool(self.faults)


class GroupWorld:
    """Brokers, members and the controller that chooses the coordinator."""

    def __init__(self, seed: int, rules: Rules = ALL_ON) -> None:
        self.kernel = Kernel(seed)
        self.rules = rules
        self.network: Random = self.kernel.stream("network")
        self.tokens = self.kernel.stream("tokens")
        self.luck = self.kernel.stream("faults")
        self.history = History(lambda: self.kernel.now)
        self.brokers = {number: GroupBroker(self, number) for number in BROKERS}
        self.in_sync = set(BROKERS)
        self.leader = -1
        self.epoch = 0
        self.members: list[GroupMember] = []
        self.cut_members: set[GroupMember] = set()
        self.commits = 0
        self.faults: dict[str, int] = {}
        self.is_lossy = True
        self._names = 0

    # ------------------------------------------------------------------ the network

    def send(self, broker_id: int, call: Call) -> None:
        """A request leaves; what goes to one broker arrives in its order."""
        if self.is_lossy and self.network.random() < 0.02:
            return
        kernel = self.kernel
        arrival = max(kernel.now + self.network.uniform(0.001, 0.05), call.member.arrivals.get(broker_id, 0.0))
        call.member.arrivals[broker_id] = arrival
        kernel.at(arrival, self._arrive, broker_id, call)
        if self.is_lossy and self.network.random() < 0.03:
            kernel.at(arrival, self._arrive, broker_id, call)

    def _arrive(self, broker_id: int, call: Call) -> None:
        broker = self.brokers[broker_id]
        if broker.is_up and self._reaches(call.member, broker):
            self.kernel.trace.note(self.kernel.now, broker_id, call.number, len(call.kind))
            broker.handle(call)

    def reply(self, caller: object, message: object) -> None:
        """An answer leaves."""
        assert isinstance(caller, Call)
        if self.is_lossy and self.network.random() < 0.02:
            return
        self.kernel.after(self.network.uniform(0.001, 0.05), self._deliver, caller, message)

    def _deliver(self, call: Call, message: object) -> None:
        self.kernel.trace.note(self.kernel.now, call.number, int(getattr(message, "error_code", 0)))
        call.member.answered(call.number, message)

    def _reaches(self, member: GroupMember, broker: GroupBroker) -> bool:
        return (member in self.cut_members) == broker.is_cut_off

    def coordinator_for(self, member: GroupMember) -> int | None:
        """What some broker that the member reaches believes; one that is cut off believes in the past."""
        cut_off = [broker for broker in self.brokers.values() if broker.is_cut_off and broker.is_up]
        if member in self.cut_members:
            return next((broker.broker_id for broker in cut_off if broker.epoch >= 0), None)
        return self.leader if self.leader > 0 else None

    # ------------------------------------------------------------------ replication

    def start(self, members: int, static: int) -> None:
        """Everybody begins."""
        self._elect()
        for number in BROKERS:
            self.kernel.after(self.network.uniform(*FETCH_SECONDS), self._fetch, self.brokers[number])
        for _ in range(members):
            self.join_new()
        for number in range(static):
            self.join_new(f"static-{number}")

    def join_new(self, instance: str | None = None) -> GroupMember:
        """A new process."""
        self._names += 1
        member = GroupMember(self, f"m{self._names}", instance)
        self.members.append(member)
        member.start()
        return member

    def _start_again(self, instance: str | None) -> None:
        self.join_new(instance)

    def _fetch(self, broker: GroupBroker) -> None:
        self.kernel.after(self.network.uniform(*FETCH_SECONDS), self._fetch, broker)
        leader = self.brokers.get(self.leader)
        if leader is None or not leader.is_up or leader.epoch < 0:
            return
        if broker is leader:
            leader.advance()
        elif broker.is_up and not broker.is_cut_off and not leader.is_cut_off:
            broker.follow(leader)
            if broker.broker_id not in self.in_sync and len(broker.log) >= leader.high_watermark:
                self.in_sync.add(broker.broker_id)
                leader.in_sync = set(self.in_sync)

    def _elect(self) -> None:
        """The controller chooses the next leader from the in-sync set, where one of it is to be had."""
        candidates = [
            number
            for number in sorted(self.in_sync)
            if self.brokers[number].is_up and not self.brokers[number].is_cut_off
        ]
        if not candidates:
            self.leader = -1
            self.kernel.after(0.5, self._retry, self.epoch)
            return
        former = self.brokers.get(self.leader)
        if former is not None and former.is_up and not former.is_cut_off:
            former.resign()
        self.leader = self.luck.choice(candidates)
        self.epoch += 1
        self.in_sync = set(candidates)
        self.brokers[self.leader].lead(self.epoch, self.in_sync)
        self.kernel.trace.note(self.kernel.now, self.leader, self.epoch)

    def _retry(self, epoch: int) -> None:
        if self.leader < 0 and self.epoch == epoch:
            self._elect()

    def _gone(self, broker: GroupBroker) -> None:
        """A broker was silent for a session."""
        if broker.is_up and not broker.is_cut_off:
            return
        if broker.broker_id == self.leader:
            self._elect()
        elif broker.broker_id in self.in_sync and self.leader > 0:
            self.in_sync.discard(broker.broker_id)
            leader = self.brokers[self.leader]
            if not leader.is_cut_off:
                leader.in_sync = set(self.in_sync)

    # ------------------------------------------------------------------ faults

    def strike(self, until: float) -> None:
        """Something goes wrong now, and again, until then."""
        if self.kernel.now >= until:
            return
        faults = (
            self._crash_coordinator, self._crash_after_answer, self._crash_broker, self._cut_off, self._move,
            self._pause_member, self._kill_member, self._leave, self._replace_static, self._come,
        )  # fmt: skip
        fault = self.luck.choice(faults)
        if fault():
            name = fault.__name__.strip("_")
            self.faults[name] = self.faults.get(name, 0) + 1
        self.kernel.after(self.luck.uniform(0.2, 6.0), self.strike, until)

    def _crash_coordinator(self) -> bool:
        return self.leader > 0 and self._crash(self.brokers[self.leader])

    def _crash_after_answer(self) -> bool:
        """The followers do not know yet that what was answered is committed."""
        if self.leader > 0:
            self.brokers[self.leader].dies_after_answer = True
        return self.leader > 0

    def _crash_broker(self) -> bool:
        return self._crash(self.brokers[self.luck.choice(BROKERS)])

    def crash_if_possible(self, broker: GroupBroker) -> None:
        """It dies now, unless too many would be dead then."""
        self._crash(broker)

    def _crash(self, broker: GroupBroker) -> bool:
        if not broker.is_up or broker.is_cut_off or sum(each.is_up for each in self.brokers.values()) < 3:
            return False
        broker.crash()
        self.kernel.after(SESSION_SECONDS, self._gone, broker)
        self.kernel.after(self.luck.uniform(0.5, 8.0), self._restart, broker)
        return True

    def _restart(self, broker: GroupBroker) -> None:
        broker.is_up = True
        if broker.broker_id == self.leader:
            self._elect()  # R8: another life is another epoch

    def _cut_off(self) -> bool:
        """The coordinator and some members are alone for a while."""
        if self.leader < 0 or any(broker.is_cut_off or not broker.is_up for broker in self.brokers.values()):
            return False
        broker = self.brokers[self.leader]
        broker.is_cut_off = True
        broker.lease_until = self.kernel.now + LEASE_SECONDS
        self.cut_members = {member for member in self.members if self.luck.random() < 0.4}
        self.kernel.after(SESSION_SECONDS, self._gone, broker)
        self.kernel.after(self.luck.uniform(1.0, 12.0), self._heal_cut, broker)
        return True

    def _heal_cut(self, broker: GroupBroker) -> None:
        broker.is_cut_off = False
        broker.lease_until = float("inf")
        self.cut_members = set()
        if broker.broker_id != self.leader:
            broker.resign()

    def _move(self) -> bool:
        if self.leader < 0 or self.brokers[self.leader].is_cut_off or not self.brokers[self.leader].is_up:
            return False
        self._elect()
        return True

    def _living(self) -> list[GroupMember]:
        return [member for member in self.members if member.is_alive]

    def _pause_member(self) -> bool:
        living = self._living()
        if living:
            self.luck.choice(living).pause(self.luck.choice((1.0, 5.0, 12.0, 25.0)))
        return bool(living)

    def _kill_member(self) -> bool:
        living = self._living()
        if len(living) < 2:
            return False
        member = self.luck.choice(living)
        member.die()
        self.kernel.after(self.luck.uniform(0.1, 8.0), self._start_again, member.instance)
        return True

    def _leave(self) -> bool:
        living = [member for member in self._living() if member.instance is None]
        if len(living) < 2:
            return False
        self.luck.choice(living).leave()
        return True

    def _come(self) -> bool:
        if len(self._living()) >= 6:
            return False
        self.join_new()
        return True

    def _replace_static(self) -> bool:
        """A static member hangs, and is started again while the old process still exists."""
        living = [member for member in self._living() if member.instance is not None]
        if not living:
            return False
        member = self.luck.choice(living)
        member.pause(self.luck.uniform(2.0, 15.0))
        self.kernel.after(self.luck.uniform(0.1, 2.0), self._start_again, member.instance)
        return True

    # ------------------------------------------------------------------ the end

    def heal(self) -> None:
        """Everything is well from now on; long enough for everybody to notice."""
        self.is_lossy = False
        for member in self.members:
            member.paused_until = min(member.paused_until, self.kernel.now)
        self.kernel.run(self.kernel.now + HEAL_SECONDS)

    def problems(self) -> list[str]:
        """What K16 finds, and whether the group came to rest."""
        found = [str(finding) for finding in groups.check(self.history)]
        living = self._living()
        if not all(member.life is Life.OWNING for member in living):
            found.append(f"liveness: members are {[member.life.name for member in living]}")
        owned = sorted(place for member in living for place in member.owned)
        if living and owned != [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]:
            found.append(f"liveness: {owned} is owned in the end")
        return found


def run_groups(seed: int, *, seconds: float = 120.0, rules: Rules = ALL_ON) -> GroupRun:
    """One run: faults for so many virtual seconds, then healing."""
    world = GroupWorld(seed, rules)
    shape = Random(f"{seed}:shape")
    world.start(members=shape.choice((1, 2, 3)), static=shape.choice((0, 1, 2)))
    world.kernel.after(5.0, world.strike, seconds)
    world.kernel.run(seconds + 15.0)
    world.heal()
    generations = {owned.generation for owned in world.history.ownerships}
    return GroupRun(
        seed,
        world.kernel.trace.digest,
        world.kernel.events,
        world.kernel.now,
        world.commits,
        len(generations),
        world.epoch - 1,
        world.faults,
        world.problems(),
    )
