"""Fetch sessions as KIP-227 has them."""

import pytest

from hightide.errors import ApiError, ErrorCode
from hightide.node.fetch_sessions import EVICTION_IDLE_SECONDS, FetchedPartition, FetchSession, FetchSessions


def asked(topic: str, index: int = 0, offset: int = 0) -> FetchedPartition:
    return FetchedPartition(topic, index, offset, 1024, -1, -1)


def refused(sessions: FetchSessions, identifier: int, epoch: int, *, ids: bool = False) -> ErrorCode:
    with pytest.raises(ApiError) as caught:
        sessions.continue_session(identifier, epoch, ids, now=1.0)
    return caught.value.code


def created(sessions: FetchSessions, *partitions: FetchedPartition, now: float = 0.0) -> FetchSession:
    session = sessions.create(partitions, False, now)
    assert session is not None
    return session


def test_epochs_must_follow_one_another() -> None:
    sessions = FetchSessions(first=7)
    session = created(sessions, asked("a"))
    assert sessions.continue_session(session.identifier, 1, False, now=1.0) is session
    assert refused(sessions, session.identifier, 1) is ErrorCode.INVALID_FETCH_SESSION_EPOCH
    assert sessions.continue_session(session.identifier, 2, False, now=1.0) is session


def test_an_unknown_session_is_refused() -> None:
    assert refused(FetchSessions(first=7), 99, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_a_session_keeps_to_names_or_to_ids() -> None:
    sessions = FetchSessions(first=7)
    session = created(sessions, asked("a"))
    assert refused(sessions, session.identifier, 1, ids=True) is ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR


def test_an_incremental_request_changes_only_what_it_names() -> None:
    session = created(FetchSessions(first=7), asked("a"), asked("b"), asked("c"))
    session.update([asked("b", offset=5), asked("d")], forgotten=[("c", 0)])
    assert [(key, partition.fetch_offset) for key, partition in session.partitions.items()] == [
        (("a", 0), 0), (("b", 0), 5), (("d", 0), 0),
    ]  # fmt: skip


def test_a_served_partition_waits_for_its_next_turn() -> None:
    session = created(FetchSessions(first=7), asked("a"), asked("b"))
    session.served(("a", 0))
    assert list(session.partitions) == [("b", 0), ("a", 0)]


def test_only_news_is_told() -> None:
    partition = asked("a")
    assert partition.say(5, 0)
    assert not partition.say(5, 0)
    assert partition.say(6, 0)
    assert partition.say(6, 2)


def test_a_full_house_takes_the_place_of_the_idle_only() -> None:
    sessions = FetchSessions(first=7, slots=2)
    first = created(sessions, asked("a"))
    created(sessions, asked("b"), now=10.0)
    assert sessions.create([asked("c")], False, now=20.0) is None
    assert len(sessions) == 2
    created(sessions, asked("c"), now=EVICTION_IDLE_SECONDS + 1)
    assert len(sessions) == 2
    assert refused(sessions, first.identifier, 1) is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def test_epochs_wrap_to_one() -> None:
    session = created(FetchSessions(first=7), asked("a"))
    session.epoch = 2**31 - 1
    session.advance()
    assert session.epoch == 1
