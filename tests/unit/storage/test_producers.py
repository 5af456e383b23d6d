"""Producer state: once and in order, with Kafka's answers (N11, R11), through snapshots and truncation."""

from typing import NamedTuple

import pytest

from hightide.errors import ApiError, CorruptionError, ErrorCode
from hightide.sim.disk import SimulatedDisk
from hightide.storage import producers
from hightide.storage.producer_snapshots import (
    SnapshotEntry,
    decode_snapshot,
    encode_snapshot,
    snapshot_path,
    write_snapshot,
)
from hightide.storage.producers import CompletedTransaction, Duplicate, ProducerStates
from hightide.wire.records import BatchHeader

NOW = 1_700_000_000_000
DAY = 86_400_000
LAST = 2**31 - 1


class Batch(NamedTuple):
    """A batch as its producer sends it."""

    sequence: int
    records: int = 1
    epoch: int = 0
    producer_id: int = 7
    transactional: bool = False

    def header(self) -> BatchHeader:
        return BatchHeader(
            base_offset=0,
            batch_length=100,
            partition_leader_epoch=0,
            magic=2,
            crc=0,
            attributes=0x10 if self.transactional else 0,
            last_offset_delta=self.records - 1,
            base_timestamp=NOW,
            max_timestamp=NOW,
            producer_id=self.producer_id,
            producer_epoch=self.epoch,
            base_sequence=self.sequence,
            record_count=self.records,
        )


class Log:
    """Just the end of a log, and the order that R11 demands."""

    def __init__(self, producers_max: int = 100) -> None:
        self.disk = SimulatedDisk()
        self.disk.make_directory("t-0")
        self.states = ProducerStates(self.disk, "t-0", producers_max)
        self.end = 0
        self.now = NOW

    def send(self, batch: Batch) -> Duplicate | None:
        header = batch.header()
        duplicate = self.states.check(header, self.now)
        if duplicate is None:
            self.states.apply(header, self.end, self.now)
            self.end += batch.records
        return duplicate

    def refuses(self, batch: Batch, code: ErrorCode) -> bool:
        with pytest.raises(ApiError) as caught:
            self.send(batch)
        return caught.value.code is code


@pytest.mark.covers("N11")
def test_batches_in_order_are_appended() -> None:
    log = Log()
    for batch in (Batch(0, 3), Batch(3), Batch(4, 10), Batch(14)):
        assert log.send(batch) is None
    assert log.end == 15


@pytest.mark.covers("N11")
def test_a_repeated_batch_is_a_duplicate_at_its_old_place() -> None:
    log = Log()
    log.send(Batch(0, 3))
    log.send(Batch(3, 2))
    assert log.send(Batch(0, 3)) == Duplicate(0, 2, NOW)
    assert log.send(Batch(3, 2)) == Duplicate(3, 4, NOW)
    assert log.end == 5


def test_only_the_last_five_batches_are_known() -> None:
    log = Log()
    for sequence in range(6):
        log.send(Batch(sequence))
    assert log.send(Batch(1)) == Duplicate(1, 1, NOW)
    assert log.refuses(Batch(0), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


@pytest.mark.parametrize("batch", [Batch(6), Batch(4), Batch(3, 2), Batch(0, 4), Batch(0, 2), Batch(1, 3)])
def test_gaps_and_overlaps_are_out_of_order(batch: Batch) -> None:
    log = Log()
    log.send(Batch(0, 3))
    log.send(Batch(3))
    log.send(Batch(4))
    if batch != Batch(4):
        assert log.refuses(batch, ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    else:
        assert log.send(batch) == Duplicate(4, 4, NOW)


def test_an_unknown_producer_may_begin_anywhere() -> None:
    log = Log()
    assert log.send(Batch(1000)) is None
    assert log.send(Batch(1001)) is None


@pytest.mark.covers("N11")
def test_sequences_wrap_at_int32() -> None:
    log = Log()
    log.send(Batch(LAST - 4, 5))
    assert log.send(Batch(0)) is None
    log = Log()
    log.send(Batch(LAST - 1, 4))
    assert log.send(Batch(LAST - 1, 4)) == Duplicate(0, 3, NOW)
    assert log.send(Batch(2)) is None
    assert log.refuses(Batch(4), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)


def test_an_older_epoch_is_fenced() -> None:
    log = Log()
    log.send(Batch(0, epoch=3))
    assert log.refuses(Batch(1, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)
    assert log.refuses(Batch(0, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_a_new_epoch_starts_at_zero() -> None:
    log = Log()
    log.send(Batch(0))
    log.send(Batch(1))
    assert log.refuses(Batch(2, epoch=1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.send(Batch(0, epoch=1)) is None
    assert log.send(Batch(1, epoch=1)) is None
    assert log.send(Batch(0, epoch=1)) == Duplicate(2, 2, NOW)


def test_a_check_without_an_append_changes_nothing() -> None:
    log = Log()
    log.send(Batch(0))
    for _ in range(3):
        assert log.states.check(Batch(1).header(), NOW) is None
        assert log.states.check(Batch(0, epoch=5).header(), NOW) is None
    assert log.states.check(Batch(0, producer_id=99).header(), NOW) is None
    assert len(log.states) == 1
    assert log.send(Batch(1)) is None


def test_producers_do_not_disturb_each_other() -> None:
    log = Log()
    for sequence in range(3):
        for producer_id in (1, 2):
            assert log.send(Batch(sequence, producer_id=producer_id)) is None
    assert [state.producer_id for state in log.states.active] == [1, 2]
    one = log.states.get(1)
    assert one is not None
    assert (one.next_sequence, one.last_timestamp) == (3, NOW)


# Transactions.


def marker(log: Log, producer_id: int, *, epoch: int = 0, aborted: bool = False) -> CompletedTransaction | None:
    header = Batch(-1, epoch=epoch, producer_id=producer_id, transactional=True).header()
    completed = log.states.apply_marker(header, log.end, NOW, coordinator_epoch=2, aborted=aborted)
    log.end += 1
    return completed


def test_the_first_unstable_offset_is_where_the_oldest_open_transaction_began() -> None:
    log = Log()
    assert log.states.first_unstable_offset(0) is None
    log.send(Batch(0))
    log.send(Batch(0, producer_id=1, transactional=True))
    log.send(Batch(0, producer_id=2, transactional=True))
    log.send(Batch(1, producer_id=1, transactional=True))
    assert log.states.first_unstable_offset(log.end) == 1
    assert marker(log, 1, aborted=True) == CompletedTransaction(1, 1, 4, True)
    assert log.states.first_undecided_offset == 2
    assert log.states.first_unstable_offset(4) == 1, "the marker is not committed yet"
    assert log.states.first_unstable_offset(5) == 2
    marker(log, 2)
    assert log.states.first_unstable_offset(6) is None
    assert log.states.first_undecided_offset is None


def test_a_marker_without_data_completes_nothing() -> None:
    log = Log()
    assert marker(log, 5, epoch=3) is None
    assert log.states.first_unstable_offset(0) is None
    assert log.refuses(Batch(0, producer_id=5, epoch=2), ErrorCode.INVALID_PRODUCER_EPOCH)


def test_after_a_marker_the_sequence_goes_on_in_its_epoch_and_begins_in_the_next() -> None:
    log = Log()
    log.send(Batch(0, 2, transactional=True))
    marker(log, 7)
    assert log.send(Batch(2, transactional=True)) is None
    marker(log, 7, epoch=1)
    assert log.refuses(Batch(3, epoch=1, transactional=True), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.send(Batch(0, epoch=1, transactional=True)) is None


def test_a_plain_batch_inside_a_transaction_is_refused() -> None:
    log = Log()
    log.send(Batch(0, transactional=True))
    assert log.refuses(Batch(1), ErrorCode.INVALID_TXN_STATE)


# Bounds.


def test_idle_producers_expire_by_our_clock() -> None:
    log = Log()
    log.send(Batch(0, producer_id=1))
    log.send(Batch(0, producer_id=2, transactional=True))
    log.now = NOW + DAY - 1
    log.states.check(Batch(1, producer_id=1).header(), log.now)
    log.send(Batch(0, producer_id=3))
    assert log.states.expire(NOW + DAY, DAY) == 0
    assert log.states.expire(NOW + 3 * DAY, DAY) == 2
    assert [state.producer_id for state in log.states.active] == [2], "an open transaction keeps its producer"


def test_a_producer_of_old_records_does_not_expire_while_it_sends() -> None:
    log = Log()
    header = Batch(0).header()
    log.states.check(header, NOW)
    log.states.apply(header, 0, 1)
    assert log.states.expire(NOW + 1000, DAY) == 0


def test_the_number_of_producers_is_bounded() -> None:
    log = Log(producers_max=10)
    log.send(Batch(0, producer_id=0, transactional=True))
    for producer_id in range(1, 50):
        log.now += 1
        log.send(Batch(0, producer_id=producer_id))
    ids = [state.producer_id for state in log.states.active]
    assert len(ids) == 10
    assert ids == [0, *range(41, 50)], "the longest unseen go first, never an open transaction"


def test_a_table_full_of_open_transactions_admits_no_other_producer() -> None:
    log = Log(producers_max=3)
    for producer_id in range(3):
        log.send(Batch(0, producer_id=producer_id, transactional=True))
    assert log.refuses(Batch(0, producer_id=9), ErrorCode.INVALID_TXN_STATE)
    log.states.apply(Batch(0, producer_id=9).header(), 3, NOW)
    assert len(log.states) == 4, "what is in the log already is never refused"


def test_a_gap_is_told_from_other_disorder() -> None:
    log = Log()
    log.send(Batch(0))
    log.send(Batch(1, 3))
    assert log.states.last_before_gap(Batch(5).header()) == 3
    assert log.states.last_before_gap(Batch(4).header()) is None, "it follows"
    assert log.states.last_before_gap(Batch(2).header()) is None, "it was there before"
    assert log.states.last_before_gap(Batch(5, epoch=1).header()) is None
    assert log.states.last_before_gap(Batch(5, producer_id=8).header()) is None
    log.send(Batch(LAST - 3, 4, producer_id=9))
    assert log.states.last_before_gap(Batch(1, producer_id=9).header()) == 7, "sequences wrap"


# Snapshots.


def test_a_snapshot_brings_everything_back() -> None:
    log = Log()
    for sequence in range(3):
        log.send(Batch(sequence * 2, 2))
    log.send(Batch(LAST - 1, 4, producer_id=8))
    log.send(Batch(0, producer_id=9, transactional=True))
    marker(log, 10, epoch=4)
    log.states.snapshot(log.end)
    fresh = ProducerStates(log.disk, "t-0")
    assert fresh.load_latest(0, log.end, NOW) == log.end
    log.states = fresh
    for sequence in (4, 2, 0):
        assert log.send(Batch(sequence, 2)) == Duplicate(sequence, sequence + 1, NOW)
    assert log.refuses(Batch(2, 1), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert log.send(Batch(LAST - 1, 4, producer_id=8)) == Duplicate(6, 9, NOW)
    assert log.send(Batch(6)) is None
    assert fresh.first_unstable_offset(99) == 10
    assert log.refuses(Batch(0, producer_id=10, epoch=3), ErrorCode.INVALID_PRODUCER_EPOCH)
    ten = fresh.get(10)
    assert ten is not None
    assert ten.coordinator_epoch == 2


def test_of_very_many_producers_a_snapshot_has_the_older_batches_of_the_youngest(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(producers, "SNAPSHOT_PRODUCERS_IN_FULL", 2)
    log = Log()
    for producer_id in (3, 1, 2):
        for sequence in (0, 1):
            log.send(Batch(sequence, producer_id=producer_id))
    log.states.snapshot(log.end)
    log.states = ProducerStates(log.disk, "t-0")
    log.states.load_latest(0, log.end, NOW)
    assert log.refuses(Batch(0, producer_id=3), ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
    assert [log.send(Batch(1, producer_id=each)) is not None for each in (1, 2, 3)] == [True] * 3
    assert [log.send(Batch(0, producer_id=each)) is not None for each in (1, 2)] == [True] * 2


def test_a_snapshot_with_one_batch_for_each_producer_is_read_too() -> None:
    """Earlier releases and Kafka wrote no more."""
    log = Log()
    write_snapshot(log.disk, snapshot_path("t-0", 9), [SnapshotEntry(7, 3, 41, 8, 1, NOW, -1, -1)], sync=False)
    assert log.states.load_latest(0, 9, NOW) == 9
    assert log.send(Batch(40, 2, producer_id=7, epoch=3)) == Duplicate(7, 8, NOW)


def test_loading_takes_the_newest_snapshot_below_the_end_and_removes_those_above() -> None:
    log = Log()
    for offset in (10, 20, 30):
        log.send(Batch(offset, producer_id=offset))
        log.states.snapshot(offset)
    assert log.states.load_latest(0, 25, NOW) == 20
    assert [state.producer_id for state in log.states.active] == [10, 20]
    assert log.states.snapshots() == [10, 20]
    assert log.states.load_latest(22, 25, NOW) == 22, "a snapshot below the log start still counts"
    assert len(log.states) == 2
    assert log.states.load_latest(0, 5, NOW) == 0
    assert len(log.states) == 0
    assert log.states.snapshots() == []


def test_an_unreadable_snapshot_is_removed_and_an_older_one_taken() -> None:
    log = Log()
    for offset in (10, 20):
        log.send(Batch(offset, producer_id=offset))
        log.states.snapshot(offset, sync=True)
    log.disk.flip(snapshot_path("t-0", 20), 30)
    assert log.states.load_latest(0, 25, NOW) == 10
    assert log.states.snapshots() == [10]
    assert [state.producer_id for state in log.states.active] == [10]


def test_old_snapshots_go_with_their_segments_but_the_newest_stays() -> None:
    log = Log()
    for offset in (10, 20, 30):
        log.states.snapshot(offset)
    log.states.remove_snapshots_below(20)
    assert log.states.snapshots() == [20, 30]
    log.states.remove_snapshots_below(99)
    assert log.states.snapshots() == [30]
    log.send(Batch(0))
    log.states.reset()
    assert log.states.snapshots() == []
    assert len(log.states) == 0


def test_the_file_is_kafkas() -> None:
    data = encode_snapshot([SnapshotEntry(7, 3, 41, 1000, 9, NOW, 2, -1)])
    assert data[:2] == b"\x00\x01"
    assert len(data) == 2 + 4 + 4 + 46
    assert snapshot_path("t-0", 1000) == "t-0/00000000000000001000.snapshot"


def test_every_flipped_bit_and_every_cut_of_a_snapshot_is_noticed() -> None:
    data = encode_snapshot([SnapshotEntry(7, 3, 41, 1000, 9, NOW, 2, -1), SnapshotEntry(8, 0, -1, -1, 0, -1, -1, 5)])
    assert len(decode_snapshot(data, "p")) == 2
    for position in range(len(data)):
        for bit in range(8):
            flipped = bytearray(data)
            flipped[position] ^= 1 << bit
            with pytest.raises(CorruptionError, match="p can't be read"):
                decode_snapshot(bytes(flipped), "p")
        with pytest.raises(CorruptionError, match="p can't be read"):
            decode_snapshot(data[:position], "p")
    with pytest.raises(CorruptionError, match="p can't be read"):
        decode_snapshot(bytes(len(data)), "p")
