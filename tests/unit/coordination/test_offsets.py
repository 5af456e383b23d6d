"""Committed offsets: who may commit, what is told, what is forgotten."""

import pytest

from hightide.coordination.classic_group import Phase
from hightide.coordination.settings import GroupSettings
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from tests.unit.coordination.desks import GROUP, Desk

P = TopicPartition("t", 0)
DAY_MS = 24 * 3_600_000
ONE, TWO = bytes([1] * 16), bytes([2] * 16)


def offset_of(desk: Desk, place: TopicPartition = P) -> int | None:
    found = desk.machine.offsets.fetch(GROUP, place)
    return None if found is None else found.offset


def subscription(*topics: str) -> bytes:
    return b"\x00\x01" + ConsumerProtocolSubscription(topics=list(topics)).encode(1)


def test_consumers_that_assign_themselves_commit_without_a_group() -> None:
    desk = Desk()
    assert offset_of(desk) is None
    assert desk.commit(5, metadata="note") is ErrorCode.NONE
    found = desk.machine.offsets.fetch(GROUP, P)
    assert found is not None
    assert (found.offset, found.leader_epoch, found.metadata) == (5, -1, "note")
    assert desk.commit(3) is ErrorCode.NONE, "whoever moves it back means it"
    assert offset_of(desk) == offset_of(desk.reloaded()) == 3


def test_members_commit_in_their_generation() -> None:
    desk = Desk()
    (one,) = desk.stable()
    generation = desk.group.generation
    assert desk.commit(5, one, generation) is ErrorCode.NONE
    assert desk.commit(6, "stranger", generation) is ErrorCode.UNKNOWN_MEMBER_ID
    assert desk.commit(6) is ErrorCode.UNKNOWN_MEMBER_ID, "a group in use is its members'"
    assert desk.commit(6, one, generation + 1) is ErrorCode.ILLEGAL_GENERATION
    assert desk.commit(6, one, -1) is ErrorCode.ILLEGAL_GENERATION
    assert offset_of(desk) == 5


def test_a_generation_of_nobody() -> None:
    assert Desk().commit(5, "x", 3) is ErrorCode.ILLEGAL_GENERATION


def test_members_may_commit_until_they_have_joined_again() -> None:
    desk = Desk()
    one, two = desk.stable(2)
    generation = desk.group.generation
    desk.join(two, protocols={"range": b"more"})
    assert desk.commit(5, one, generation) is ErrorCode.NONE
    desk.join(one)
    assert desk.commit(6, one, generation) is ErrorCode.ILLEGAL_GENERATION
    assert desk.commit(6, one, generation + 1) is ErrorCode.REBALANCE_IN_PROGRESS
    assert offset_of(desk) == 5


def test_a_commit_is_a_sign_of_life() -> None:
    desk = Desk()
    (one,) = desk.stable()
    for number in range(5):
        desk.pass_time(6)
        assert desk.commit(number, one, desk.group.generation) is ErrorCode.NONE


def test_notes_have_a_limit() -> None:
    desk = Desk(GroupSettings(offset_metadata_max_bytes=4))
    assert desk.commit(1, metadata="1234") is ErrorCode.NONE
    assert desk.commit(2, metadata="12é4") is ErrorCode.OFFSET_METADATA_TOO_LARGE
    assert offset_of(desk) == 1


def test_a_coordinator_has_a_limit() -> None:
    desk = Desk(GroupSettings(offsets_max=2))
    assert desk.commit(1) is desk.commit(1, partition=1) is ErrorCode.NONE
    assert desk.commit(1, partition=2) is ErrorCode.POLICY_VIOLATION
    assert desk.commit(2, partition=1) is ErrorCode.NONE, "not a new one"
    desk.append(desk.machine.delete_group(GROUP))
    assert desk.commit(1, partition=2) is ErrorCode.NONE
    assert desk.reloaded().machine.offsets.count == 1


def test_an_offset_belongs_to_its_topics_id() -> None:
    desk = Desk()
    desk.commit(5, topic_id=ONE)
    offsets = desk.reloaded().machine.offsets
    assert offsets.fetch(GROUP, P, ONE) is not None
    assert offsets.fetch(GROUP, P, TWO) is None, "the topic was created again"
    assert offsets.fetch(GROUP, P) is not None, "nobody knows"


def forget(desk: Desk, topic_id: bytes) -> None:
    for group in list(desk.machine.groups.values()):
        desk.append(list(desk.machine.offsets.missing(group, lambda _name, known: known == topic_id)))


def test_offsets_go_with_their_topics() -> None:
    desk = Desk()
    desk.commit(5, topic_id=ONE)
    desk.commit(6, topic="u", topic_id=TWO)
    forget(desk, ONE)
    assert offset_of(desk) is None
    assert offset_of(desk, TopicPartition("u", 0)) == 6
    forget(desk, TWO)
    assert desk.machine.groups == {}, "nothing is left of it"
    assert desk.reloaded().machine.groups == {}


def test_single_offsets_are_deleted_unless_somebody_uses_them() -> None:
    desk = Desk()
    (one,) = desk.stable(1, protocols={"range": subscription("t")})
    desk.commit(5, one, desk.group.generation)
    desk.commit(6, one, desk.group.generation, topic="u")
    places = [P, TopicPartition("u", 0), TopicPartition("v", 0)]
    records, codes = desk.machine.offsets.delete(GROUP, places)
    assert codes == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC, ErrorCode.NONE, ErrorCode.NONE]
    desk.append(records)
    assert (offset_of(desk), offset_of(desk, places[1])) == (5, None)
    desk.leave(one)
    records, codes = desk.machine.offsets.delete(GROUP, [P])
    desk.append(records)
    assert codes == [ErrorCode.NONE]
    assert offset_of(desk) is None


def test_offsets_of_other_kinds_of_groups_stay_while_they_are_used() -> None:
    desk = Desk()
    with pytest.raises(ApiError, match="GROUP_ID_NOT_FOUND"):
        desk.machine.offsets.delete(GROUP, [P])
    desk.stable(1, kind="connect")
    with pytest.raises(ApiError, match="NON_EMPTY_GROUP"):
        desk.machine.offsets.delete(GROUP, [P])


def test_metadata_that_nobody_understands_protects_everything() -> None:
    desk = Desk()
    (one,) = desk.stable(1, protocols={"range": b"\xff"})
    desk.commit(5, one, desk.group.generation)
    assert desk.machine.offsets.delete(GROUP, [P])[1] == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


def test_whole_groups_are_deleted_when_they_are_empty() -> None:
    desk = Desk()
    (one,) = desk.stable()
    desk.commit(5, one, desk.group.generation)
    with pytest.raises(ApiError, match="NON_EMPTY_GROUP"):
        desk.machine.delete_group(GROUP)
    desk.leave(one)
    desk.append(desk.machine.delete_group(GROUP))
    assert desk.machine.groups == desk.reloaded().machine.groups == {}


def expire(desk: Desk, after_ms: int) -> None:
    for group in list(desk.machine.groups.values()):
        desk.append(list(desk.machine.offsets.expired(group, desk.now_ms + after_ms)))


def test_offsets_of_an_empty_group_expire_a_while_after_it_became_empty() -> None:
    desk = Desk()
    (one,) = desk.stable()
    desk.commit(5, one, desk.group.generation)
    desk.now += 30 * 24 * 3600
    expire(desk, 0)
    assert offset_of(desk) == 5, "in use"
    desk.leave(one)
    expire(desk, 7 * DAY_MS - 1)
    assert offset_of(desk) == 5
    expire(desk, 7 * DAY_MS)
    assert desk.machine.groups == desk.reloaded().machine.groups == {}


def test_offsets_without_members_expire_by_their_own_age() -> None:
    desk = Desk()
    desk.commit(5)
    desk.now += 3600
    desk.commit(6, partition=1)
    expire(desk, 7 * DAY_MS - 3_600_000)
    assert (offset_of(desk), offset_of(desk, TopicPartition("t", 1))) == (None, 6)


def test_old_clients_say_themselves_how_long() -> None:
    desk = Desk()
    desk.commit(5, retention_ms=1000)
    again = desk.reloaded()
    expire(again, 999)
    assert offset_of(again) == 5
    expire(again, 1000)
    assert again.machine.groups == {}


def test_a_topic_that_consumers_no_longer_read_expires_while_they_go_on() -> None:
    desk = Desk()
    (one,) = desk.stable(1, protocols={"range": subscription("t")})
    desk.commit(5, one, desk.group.generation)
    desk.commit(6, one, desk.group.generation, topic="u")
    expire(desk, 7 * DAY_MS)
    assert (offset_of(desk), offset_of(desk, TopicPartition("u", 0))) == (5, None)
    assert desk.group.phase is Phase.STABLE


def test_nothing_expires_during_a_rebalance() -> None:
    desk = Desk()
    one, _ = desk.stable(2)
    desk.commit(5, one, desk.group.generation, topic="u")
    desk.join(one)
    assert list(desk.machine.offsets.expired(desk.group, desk.now_ms + 30 * DAY_MS)) == []


def test_a_group_whose_record_is_gone_keeps_what_it_committed() -> None:
    desk = Desk()
    (one,) = desk.stable()
    desk.commit(5, one, desk.group.generation)
    desk.leave(one)
    *_offsets, group = desk.machine.delete_group(GROUP)
    desk.append([group])
    assert offset_of(desk) == offset_of(desk.reloaded()) == 5
