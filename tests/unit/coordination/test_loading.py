"""Of each key the newest record counts, and the result is that of replaying everything."""

from hypothesis import given
from hypothesis import strategies as st

from hightide.coordination.coordinator import GroupCoordinator
from hightide.coordination.decisions import GroupRecord
from hightide.coordination.loading import Loading
from hightide.coordination.records import decode, encode
from hightide.coordination.settings import GroupSettings
from hightide.types import TopicPartition
from hightide.wire.messages.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    MemberMetadata,
    OffsetCommitKey,
    OffsetCommitValue,
)

GROUPS = st.sampled_from(["g", "h"])
COMMITS = st.builds(
    lambda group, partition, offset: GroupRecord(
        OffsetCommitKey(group=group, topic="t", partition=partition),
        None if offset is None else OffsetCommitValue(offset=offset),
    ),
    GROUPS,
    st.integers(0, 2),
    st.none() | st.integers(0, 9),
)
STATES = st.builds(
    lambda group, generation, members: GroupRecord(
        GroupMetadataKey(group=group),
        None
        if generation is None
        else GroupMetadataValue(
            protocol_type="consumer",
            generation=generation,
            protocol="range",
            leader=members[0] if members else None,
            members=[MemberMetadata(member_id=each, assignment=each.encode()) for each in members],
        ),
    ),
    GROUPS,
    st.none() | st.integers(1, 9),
    st.lists(st.sampled_from("abc"), unique=True, max_size=3),
)


def known(machine: GroupCoordinator) -> dict[str, object]:
    return {
        group.group_id: (
            group.phase,
            group.generation,
            group.leader,
            {each.member_id: each.assignment for each in group.members.values()},
            {place: offset.offset for place, offset in group.offsets.items()},
        )
        for group in machine.groups.values()
    }


@given(st.lists(COMMITS | STATES, max_size=30))
def test_the_newest_records_are_as_good_as_all(records: list[GroupRecord]) -> None:
    everything, newest, loading = GroupCoordinator(GroupSettings()), GroupCoordinator(GroupSettings()), Loading()
    for end, record in enumerate(records, 1):
        everything.apply(record, end)
        loading.add(*encode(record), end)
    for record, end in loading.newest():
        newest.apply(record, end)
    assert known(newest) == known(everything)
    assert newest.offsets.count == everything.offsets.count
    assert loading.unreadable == []


def test_what_is_no_record_is_told_and_passed_over() -> None:
    loading = Loading()
    loading.add(None, b"x", 1)
    loading.add(b"\x00\x02\x00\x01g", b"\x00\x63", 2)
    loading.add(b"\x00\x63", b"x", 3)  # another kind of group
    key, value = encode(GroupRecord(OffsetCommitKey(group="g", topic="t"), OffsetCommitValue(offset=5)))
    loading.add(key, value, 4)
    (stored,) = loading.newest()
    assert (stored.record, stored.end) == (decode(key, value), 4)
    assert [problem.partition(":")[0] for problem in loading.unreadable] == [
        "the record before 1 has no key",
        "the record before 2",
    ]
    machine = GroupCoordinator(GroupSettings())
    machine.apply(*stored)
    assert machine.groups["g"].offsets[TopicPartition("t", 0)].offset == 5
