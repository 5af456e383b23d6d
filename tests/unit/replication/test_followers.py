"""What a follower does with an answer: R1, R2, R13, R19, R25 and the corrections of MISSION section 5."""

import pytest

from hightide.errors import ErrorCode
from hightide.replication.effects import (
    AdvanceStart,
    AppendFetched,
    HighWatermarkMoved,
    ListAgain,
    RestartLogAt,
    TruncateTo,
)
from hightide.replication.events import FetchAnswered, FollowershipGranted, LogAdvanced, LogTruncated
from hightide.replication.fetching import NextFetch
from hightide.replication.replica import Replica
from hightide.rules import ALL_ON, Rules
from tests.unit.replication.replicas import EpochLog, replica_on

FOLLOWS = FollowershipGranted(2, 4, 7, (1, 2, 3), (1, 2, 3))


def follower(log: EpochLog, *, high_watermark: int = 0, synced_only: bool = True, rules: Rules = ALL_ON) -> Replica:
    machine = replica_on(log, high_watermark=high_watermark, synced_only=synced_only, rules=rules)
    assert machine.handle(FOLLOWS)[-1] == ListAgain()
    return machine


def answer(
    offset: int,
    *,
    error: ErrorCode = ErrorCode.NONE,
    diverging: tuple[int, int] | None = None,
    high_watermark: int = 0,
    log_start: int = 0,
    has_records: bool = False,
) -> FetchAnswered:
    return FetchAnswered(4, offset, 1.0, error, diverging, high_watermark, log_start, has_records)


@pytest.mark.covers("C15", "T3")
def test_it_asks_from_its_own_end_with_the_epoch_of_its_last_record() -> None:
    machine = follower(EpochLog((0, 0), (2, 10), end=25))
    assert machine.next_fetch(0.0) == NextFetch(2, 4, 25, 2, 0)


def test_it_asks_nobody_while_nobody_leads() -> None:
    machine = replica_on(EpochLog((0, 0), end=25))
    machine.handle(FOLLOWS._replace(leader=-1))
    assert machine.next_fetch(0.0) is None
    assert machine.leader == -1


def test_an_unsynced_log_is_not_listed_in_a_synced_session() -> None:
    log = EpochLog((0, 0), end=25)
    log.synced_end = 20
    machine = follower(log)
    assert machine.next_fetch(0.0) is None
    machine.handle(LogAdvanced(25, 25))
    assert machine.next_fetch(0.0) is not None


def test_a_replicated_topic_does_not_wait_for_the_disk() -> None:
    log = EpochLog((0, 0), end=25)
    log.synced_end = 20
    assert follower(log, synced_only=False).next_fetch(0.0) is not None


@pytest.mark.covers("C17")
def test_records_are_appended_before_the_high_watermark_moves() -> None:
    machine = follower(EpochLog((4, 0), end=10), high_watermark=8)
    assert machine.handle(answer(10, high_watermark=14, has_records=True)) == [AppendFetched(4), HighWatermarkMoved(10)]
    assert machine.handle(LogAdvanced(12, 10)) == [HighWatermarkMoved(12)]


def test_a_diverging_answer_cuts_to_the_end_of_the_largest_common_epoch() -> None:
    """R1's example: leader e0[0,10) e1[10,15) e3[15,30), follower e0[0,10) e2[10,25)."""
    machine = follower(EpochLog((0, 0), (2, 10), end=25), high_watermark=8)
    diverging = answer(25, diverging=(1, 15), high_watermark=20, has_records=True)
    assert machine.handle(diverging) == [TruncateTo(10), ListAgain()]
    assert machine.high_watermark == 8, "nothing else of the answer is used"
    machine.handle(LogTruncated(10, 10))
    assert machine.handle(LogAdvanced(10, 10)) == []


def test_without_that_sentence_the_same_answer_comes_for_ever() -> None:
    log = EpochLog((0, 0), (2, 10), end=25)
    machine = follower(log, rules=ALL_ON.without("r1_cut_to_own_epoch_end"))
    assert machine.handle(answer(25, diverging=(1, 15)))[0] == TruncateTo(15)
    log.end = 15
    machine.handle(LogTruncated(15, 15))
    assert machine.handle(answer(15, diverging=(1, 15)))[0] == TruncateTo(15)


def test_a_log_with_nothing_in_common_begins_anew_at_the_leaders_start() -> None:
    machine = follower(EpochLog((3, 0), end=25))
    assert machine.handle(answer(25, diverging=(1, 15), log_start=5)) == [RestartLogAt(5), ListAgain()]


@pytest.mark.covers("C34")
def test_below_the_leaders_start_the_log_begins_anew() -> None:
    machine = follower(EpochLog((3, 0), end=25))
    answered = machine.handle(answer(25, error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start=40))
    assert answered == [RestartLogAt(40), ListAgain()]


def test_out_of_range_without_a_reason_is_asked_again_later() -> None:
    machine = follower(EpochLog((3, 0), end=25))
    assert machine.handle(answer(25, error=ErrorCode.OFFSET_OUT_OF_RANGE, log_start=5)) == [ListAgain()]
    assert machine.next_fetch(1.0) is None


@pytest.mark.parametrize("stale", [answer(10)._replace(leader_epoch=3), answer(9)])
def test_an_answer_to_another_question_is_dropped(stale: FetchAnswered) -> None:
    machine = follower(EpochLog((3, 0), end=10), high_watermark=5)
    assert machine.handle(stale._replace(high_watermark=10, has_records=True)) == [ListAgain()]
    assert machine.high_watermark == 5


def test_errors_are_asked_again_after_a_growing_while() -> None:
    machine = follower(EpochLog((3, 0), end=10))
    refused = answer(10, error=ErrorCode.UNKNOWN_LEADER_EPOCH)
    waits = []
    for _ in range(8):
        machine.handle(refused)
        assert machine.next_deadline is not None
        waits.append(machine.next_deadline - refused.now)
    assert waits == sorted(waits)
    assert waits[-1] == pytest.approx(1.0)
    assert machine.next_fetch(2.5) is not None
    machine.handle(answer(10))
    machine.handle(refused)
    assert machine.next_deadline == pytest.approx(refused.now + 0.02)


def test_a_fenced_follower_waits_for_metadata() -> None:
    machine = follower(EpochLog((3, 0), end=10))
    machine.handle(answer(10, error=ErrorCode.FENCED_LEADER_EPOCH))
    assert machine.next_fetch(1e9) is None
    assert machine.next_deadline is None
    machine.handle(FOLLOWS._replace(leader_epoch=5, partition_epoch=8))
    assert machine.next_fetch(0.0) is not None


def test_the_log_start_follows_the_leaders_but_not_beyond_what_is_committed() -> None:
    machine = follower(EpochLog((3, 0), end=10), high_watermark=5)
    assert AdvanceStart(4) in machine.handle(answer(10, high_watermark=8, log_start=4))
    assert AdvanceStart(8) in machine.handle(answer(10, high_watermark=8, log_start=9))


@pytest.mark.parametrize("old", [FOLLOWS._replace(leader_epoch=3), FOLLOWS._replace(partition_epoch=6)])
def test_an_older_role_is_ignored(old: FollowershipGranted) -> None:
    machine = follower(EpochLog((3, 0), end=10))
    assert machine.handle(old._replace(leader=3)) == []
    assert machine.leader == 2


def test_the_same_epoch_again_changes_only_the_sets() -> None:
    machine = follower(EpochLog((3, 0), end=10))
    assert machine.handle(FOLLOWS._replace(partition_epoch=8, in_sync_replicas=(2, 3))) == []
    assert machine.in_sync_replicas == (2, 3)
