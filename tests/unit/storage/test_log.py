"""The log: what an append answers, what a read gives, what truncation, roll and sync leave behind."""

import errno

import pytest

from hightide.errors import ApiError, CorruptionError, DiskFullError, ErrorCode, StorageError
from hightide.rules import ALL_ON
from hightide.storage.log import Log
from hightide.storage.settings import LogSettings, OpenFacts
from hightide.wire.records import iterate_headers
from tests.unit.storage.logs import (
    DIRECTORY,
    NOW_MS,
    SMALL_SEGMENTS,
    append,
    batch,
    contents,
    fill,
    marker,
    new_disk,
    numbered,
    open_log,
    read_records,
    sync,
    transactional,
    values,
)


def refused(code: ErrorCode, log: Log, data: bytes | bytearray, leader_epoch: int = 0) -> None:
    before = state_of(log)
    with pytest.raises(ApiError) as caught:
        log.append_as_leader(memoryview(bytearray(data)), leader_epoch, NOW_MS)
    assert caught.value.code is code
    assert state_of(log) == before


def state_of(log: Log) -> tuple[object, ...]:
    """Everything that a failed append must leave alone."""
    producers = [(state.producer_id, state.epoch, list(state.batches)) for state in log.producers.active]
    return log.start, log.end, log.synced_end, log.size_bytes, log.epochs.entries, producers, contents(log)


# ---------------------------------------------------------------------- appending


def test_offsets_rise_by_records() -> None:
    log = open_log(new_disk())
    first = append(log, b"a", b"b", b"c")
    second = append(log, b"d")
    assert (first.base_offset, first.last_offset, first.append_time, first.duplicate) == (0, 2, -1, False)
    assert (second.base_offset, second.last_offset) == (3, 3)
    assert (log.start, log.end, log.synced_end) == (0, 4, 0)
    assert contents(log) == {0: b"a", 1: b"b", 2: b"c", 3: b"d"}


def test_the_leader_epoch_is_written_into_the_batch_and_the_history() -> None:
    log = open_log(new_disk())
    append(log, b"a", leader_epoch=3)
    append(log, b"b", leader_epoch=5)
    read = log.read(0, 1000, upper_bound=2, min_one_batch=True)
    assert read is not None
    epochs = [header.partition_leader_epoch for _, header in iterate_headers(read.slice.read())]
    assert epochs == [3, 5]
    assert log.epochs.entries == [(3, 0), (5, 1)]
    assert log.end_of_epoch(3) == (3, 1)
    assert log.end_of_epoch(4) == (3, 1)
    assert log.end_of_epoch(5) == (5, 2)
    assert log.end_of_epoch(6) == (-1, -1)


def test_an_older_leader_may_not_write() -> None:
    log = open_log(new_disk())
    append(log, b"a", leader_epoch=5)
    refused(ErrorCode.FENCED_LEADER_EPOCH, log, batch(b"b"), leader_epoch=4)


def test_bad_batches_change_nothing() -> None:
    log = open_log(new_disk(), SMALL_SEGMENTS._replace(max_message_bytes=500, segment_bytes=400))
    fill(log, 3)
    flipped = batch(b"x")
    flipped[-1] ^= 1
    refused(ErrorCode.CORRUPT_MESSAGE, log, flipped)
    refused(ErrorCode.MESSAGE_TOO_LARGE, log, batch(b"x" * 500))
    refused(ErrorCode.RECORD_LIST_TOO_LARGE, log, batch(b"x" * 400))
    refused(ErrorCode.INVALID_RECORD, log, marker(1, commit=True))


def test_a_batch_that_fits_no_segment_does_not_roll_one() -> None:
    log = open_log(new_disk(), SMALL_SEGMENTS._replace(segment_bytes=200))
    fill(log, 1)
    refused(ErrorCode.RECORD_LIST_TOO_LARGE, log, batch(b"x" * 200))
    assert log.segment_count == 1


def test_append_time_is_the_brokers() -> None:
    log = open_log(new_disk(), LogSettings(log_append_time=True))
    appended = append(log, b"a", timestamp=5)
    assert appended.append_time == NOW_MS
    assert [record.timestamp for record in read_records(log)] == [NOW_MS]


def test_a_topic_may_have_its_own_codec() -> None:
    log = open_log(new_disk(), LogSettings(compression_type="gzip"))
    append(log, b"a" * 500)
    assert log.size_bytes < 200
    assert contents(log) == {0: b"a" * 500}


def test_settings_change_at_once() -> None:
    log = open_log(new_disk(), LogSettings())
    log.configure(LogSettings(max_message_bytes=100))
    refused(ErrorCode.MESSAGE_TOO_LARGE, log, batch(b"x" * 100))


@pytest.mark.covers("N11")
def test_a_batch_of_an_idempotent_producer_is_appended_once() -> None:
    log = open_log(new_disk())
    data = batch(b"a", b"b", producer=9)
    first = log.append_as_leader(memoryview(bytearray(data)), 0, NOW_MS)
    again = log.append_as_leader(memoryview(bytearray(data)), 0, NOW_MS)
    assert (again.base_offset, again.last_offset) == (first.base_offset, first.last_offset) == (0, 1)
    assert (first.duplicate, again.duplicate) == (False, True)
    assert log.end == 2
    refused(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, log, batch(b"c", producer=9, sequence=5))


def test_the_brokers_own_batches_may_be_control_batches_and_several() -> None:
    log = open_log(new_disk())
    data = bytearray(transactional(7, 0, b"a", b"b") + marker(7, commit=True))
    appended = log.append_own(memoryview(data), 2, NOW_MS)
    assert (appended.base_offset, appended.last_offset, log.end) == (0, 2, 3)
    assert log.epochs.entries == [(2, 0)]


# ---------------------------------------------------------------------- rolling


def test_segments_roll_by_size_and_hold_whole_batches() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    assert log.segment_count > 3
    sizes = [len(data) for path, data in disk.image().items() if path.endswith(".log")]
    assert max(sizes) <= SMALL_SEGMENTS.segment_bytes
    assert contents(log) == numbered(0, 30)


def test_segments_roll_by_time() -> None:
    log = open_log(new_disk(), LogSettings(segment_ms=1000))
    append(log, b"a", timestamp=NOW_MS)
    append(log, b"b", timestamp=NOW_MS + 1000)
    assert log.segment_count == 1
    append(log, b"c", timestamp=NOW_MS + 1001)
    assert log.segment_count == 2


def test_segments_roll_when_their_index_is_full() -> None:
    log = open_log(new_disk(), LogSettings(segment_index_bytes=16, index_interval_bytes=0))
    fill(log, 10)
    assert log.segment_count > 2
    assert contents(log) == numbered(0, 10)


def test_jitter_spreads_rolls_and_is_the_same_in_every_run() -> None:
    settings = LogSettings(segment_ms=1000, segment_jitter_ms=900)

    def rolls_at() -> int:
        log = open_log(new_disk(), settings)
        append(log, b"a")
        for later in range(1, 1100):
            append(log, b"b", timestamp=NOW_MS + later)
            if log.segment_count > 1:
                return later
        raise AssertionError("it never rolled")

    assert rolls_at() == rolls_at() < 1001


def test_an_empty_segment_is_not_rolled() -> None:
    log = open_log(new_disk())
    log.roll()
    assert log.segment_count == 1


# ---------------------------------------------------------------------- reading


@pytest.fixture
def filled() -> Log:
    log = open_log(new_disk())
    fill(log, 30)
    return log


@pytest.mark.parametrize("offset", [-1, 31, 1000])
def test_offsets_outside_the_log_are_out_of_range(filled: Log, offset: int) -> None:
    with pytest.raises(ApiError) as caught:
        filled.read(offset, 100, upper_bound=30, min_one_batch=True)
    assert caught.value.code is ErrorCode.OFFSET_OUT_OF_RANGE


def test_the_end_and_the_bound_are_empty(filled: Log) -> None:
    assert filled.read(30, 100, upper_bound=30, min_one_batch=True) is None
    assert filled.read(10, 100, upper_bound=10, min_one_batch=True) is None
    assert filled.read(12, 100, upper_bound=10, min_one_batch=True) is None


@pytest.mark.parametrize("offset", range(30))
def test_every_offset_can_be_read_from(filled: Log, offset: int) -> None:
    assert values(read_records(filled, offset)) == numbered(offset, 30)


@pytest.mark.parametrize("bound", range(1, 31))
def test_nothing_beyond_the_bound(filled: Log, bound: int) -> None:
    offset = 0
    while (read := filled.read(offset, 10_000, upper_bound=bound, min_one_batch=True)) is not None:
        last = [header.last_offset for _, header in iterate_headers(read.slice.read())][-1]
        assert last < bound
        offset = last + 1
    assert offset == bound


def test_the_first_batch_is_whole_even_when_it_is_too_large(filled: Log) -> None:
    read = filled.read(0, 1, upper_bound=30, min_one_batch=True)
    assert read is not None
    assert [header.last_offset for _, header in iterate_headers(read.slice.read())] == [0]
    assert filled.read(0, 1, upper_bound=30, min_one_batch=False) is None


def test_a_read_within_a_batch_begins_with_that_batch() -> None:
    log = open_log(new_disk())
    append(log, b"a", b"b", b"c")
    append(log, b"d", b"e", b"f")
    read = log.read(4, 1000, upper_bound=6, min_one_batch=True)
    assert read is not None
    assert [header.base_offset for _, header in iterate_headers(read.slice.read())] == [3]


def test_a_deleted_segment_is_readable_until_its_slice_is_released(filled: Log) -> None:
    read = filled.read(0, 100, upper_bound=30, min_one_batch=True)
    assert read is not None
    before = read.slice.read()
    filled.advance_start(29)
    assert filled.delete_old_segments(NOW_MS) > 0
    assert read.slice.read() == before
    read.slice.release()
    with pytest.raises(OSError, match="Bad file descriptor"):
        read.slice.read()


# ---------------------------------------------------------------------- transactions


def test_aborted_transactions_are_found_across_segments() -> None:
    log = open_log(new_disk())

    def own(data: bytearray) -> None:
        log.append_own(memoryview(data), 0, NOW_MS)

    own(transactional(1, 0, b"a"))
    own(transactional(2, 0, b"b"))
    assert log.last_stable_offset(2) == 0
    log.roll()
    own(marker(1, commit=False))
    assert log.last_stable_offset(2) == 0, "the marker is not committed yet"
    assert log.last_stable_offset(log.end) == 1
    log.roll()
    own(marker(2, commit=True))
    assert log.last_stable_offset(log.end) == log.end == 4
    assert log.aborted_transactions(0, 4) == [(1, 0)]
    assert log.aborted_transactions(3, 4) == []


def test_segments_without_aborted_transactions_cost_no_lookup() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    log.close(clean=True)
    disk.kill()
    log = open_log(disk, facts=OpenFacts(clean=True, recovery_point=30))
    disk.fail("read", "*", times=-1)
    assert log.aborted_transactions(0, 30) == []


# ---------------------------------------------------------------------- time


def test_records_are_found_by_time() -> None:
    log = open_log(new_disk())
    for offset, timestamp in enumerate([10, 30, 20, 40, 40, 25]):
        append(log, b"%d" % offset, timestamp=NOW_MS + timestamp, leader_epoch=offset // 3)
    assert log.offset_for_timestamp(0, 6) == (0, NOW_MS + 10, 0)
    assert log.offset_for_timestamp(NOW_MS + 11, 6) == (1, NOW_MS + 30, 0)
    assert log.offset_for_timestamp(NOW_MS + 31, 6) == (3, NOW_MS + 40, 1)
    assert log.offset_for_timestamp(NOW_MS + 31, 3) is None, "it is not committed"
    assert log.offset_for_timestamp(NOW_MS + 41, 6) is None
    assert log.max_timestamp_offset(6) == (3, NOW_MS + 40, 1)
    assert log.max_timestamp_offset(3) == (1, NOW_MS + 30, 0)
    log.advance_start(2)
    assert log.offset_for_timestamp(0, 6) == (2, NOW_MS + 20, 0)
    assert log.max_timestamp_offset(3) == (2, NOW_MS + 20, 0)


def test_an_empty_log_has_no_times() -> None:
    log = open_log(new_disk())
    assert log.offset_for_timestamp(0, 0) is None
    assert log.max_timestamp_offset(0) is None


# ---------------------------------------------------------------------- group commit


def test_a_sync_covers_what_was_written_before_it_began() -> None:
    log = open_log(new_disk())
    fill(log, 20)
    plan = log.unsynced_files()
    fill(log, 5)
    for file in plan.files:
        file.sync()
    assert log.synced(plan)
    assert (log.synced_end, log.end) == (20, 25)
    assert sync(log)
    assert log.synced_end == 25
    assert log.unsynced_files().files == []


@pytest.mark.parametrize("on", [True, False])
def test_a_sync_from_before_a_truncation_proves_nothing(on: bool) -> None:
    rules = ALL_ON if on else ALL_ON.without("r19_void_sync_after_truncation")
    log = open_log(new_disk(), rules=rules)
    fill(log, 10)
    plan = log.unsynced_files()
    log.truncate(5, NOW_MS)
    fill(log, 5)
    assert log.synced(plan) is not on
    assert (log.synced_end == 10) is not on, "without R19 five batches count that were never synced"


def test_a_failed_sync_is_the_end_of_writing() -> None:
    log = open_log(new_disk())
    fill(log, 3)
    assert not log.synced(log.unsynced_files(), OSError(errno.EIO, "the disk is gone"))
    assert log.synced_end == 0
    with pytest.raises(StorageError, match="the disk is gone"):
        append(log, b"x")
    assert contents(log) == numbered(0, 3)


def test_a_segment_stays_open_while_it_is_synced() -> None:
    log = open_log(new_disk())
    fill(log, 20)
    plan = log.unsynced_files()
    log.advance_start(19)
    assert log.delete_old_segments(NOW_MS) > 0
    for file in plan.files:
        file.sync()
    assert log.synced(plan)


# ---------------------------------------------------------------------- failing disks (R10)


@pytest.mark.parametrize("arrived", [0, 1, 40, 75])
def test_a_full_disk_is_cut_back_to_the_last_whole_batch(arrived: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    before, image = state_of(log), disk.image()
    disk.fail("write", "*.log", code=errno.ENOSPC, keep=arrived)
    with pytest.raises(DiskFullError):
        append(log, b"does not fit")
    assert state_of(log) == before
    assert disk.image() == image
    assert log.failure is None
    append(log, b"value-3")
    assert contents(log) == numbered(0, 4)


def test_if_the_cut_fails_too_nothing_is_written_any_more() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    disk.fail("write", "*.log", code=errno.ENOSPC, keep=10)
    disk.fail("truncate", "*.log")
    with pytest.raises(StorageError) as caught:
        append(log, b"x")
    assert not isinstance(caught.value, DiskFullError)
    with pytest.raises(StorageError):
        append(log, b"x")
    assert contents(log) == numbered(0, 3)


def test_any_other_failed_write_is_the_end_of_writing() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    disk.fail("write", "*.log", code=errno.EIO)
    with pytest.raises(StorageError):
        append(log, b"x")
    with pytest.raises(StorageError):
        log.roll()
    assert contents(log) == numbered(0, 3)


@pytest.mark.parametrize("pattern", ["*.index", "*.timeindex", "*.seal", "*.snapshot"])
def test_a_disk_that_is_full_at_a_roll_changes_nothing(pattern: str) -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    before = state_of(log)
    disk.fail("write", pattern, code=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        log.roll()
    assert state_of(log) == before
    assert log.segment_count == 1
    log.roll()
    fill(log, 3)
    assert contents(log) == numbered(0, 6)


@pytest.mark.parametrize("on", [True, False])
def test_producers_learn_of_a_batch_only_after_it_is_written(on: bool) -> None:
    disk = new_disk()
    log = open_log(disk, rules=ALL_ON if on else ALL_ON.without("r11_producer_state_after_append"))
    data = batch(b"a", producer=9)
    disk.fail("write", "*.log", code=errno.ENOSPC)
    with pytest.raises(DiskFullError):
        log.append_as_leader(memoryview(bytearray(data)), 0, NOW_MS)
    again = log.append_as_leader(memoryview(bytearray(data)), 0, NOW_MS)
    assert again.duplicate is not on, "without R11 the retry is taken for a duplicate of nothing"


# ---------------------------------------------------------------------- following (R21)


def leader_bytes(count: int = 6, leader_epoch: int = 4) -> bytearray:
    log = open_log(new_disk(), LogSettings())
    fill(log, count, leader_epoch=leader_epoch)
    read = log.read(0, 1 << 20, upper_bound=count, min_one_batch=True)
    assert read is not None
    return bytearray(read.slice.read())


def test_a_follower_has_the_leaders_bytes() -> None:
    data = leader_bytes()
    log = open_log(new_disk(), LogSettings())
    log.append_as_follower(memoryview(data), 4, NOW_MS)
    read = log.read(0, 1 << 20, upper_bound=6, min_one_batch=True)
    assert read is not None
    assert read.slice.read() == data
    assert log.epochs.entries == [(4, 0)]


def test_a_follower_rolls_within_a_response() -> None:
    log = open_log(new_disk())
    log.append_as_follower(memoryview(leader_bytes(30)), 4, NOW_MS)
    assert log.segment_count > 3
    assert contents(log) == numbered(0, 30)


@pytest.mark.parametrize("on", [True, False])
@pytest.mark.parametrize("damage", ["crc", "epoch", "gap", "overlap"])
def test_a_follower_refuses_what_may_not_follow(damage: str, on: bool) -> None:
    data = leader_bytes()
    log = open_log(new_disk(), LogSettings(), rules=ALL_ON if on else ALL_ON.without("r21_followers_verify"))
    fetch_epoch = 4
    if damage == "crc":
        data[-1] ^= 1
    elif damage == "epoch":
        fetch_epoch = 3
    elif damage == "gap":
        data = data[len(data) // 6 :]
    else:
        log.append_as_follower(memoryview(data[: len(data) // 6]), 4, NOW_MS)
    before = log.end, log.size_bytes
    if on:
        with pytest.raises(ApiError) as caught:
            log.append_as_follower(memoryview(data), fetch_epoch, NOW_MS)
        assert caught.value.code is ErrorCode.CORRUPT_MESSAGE
    else:
        log.append_as_follower(memoryview(data), fetch_epoch, NOW_MS)
    assert ((log.end, log.size_bytes) == before) is on


def test_a_follower_of_a_compacted_leader_accepts_gaps() -> None:
    data = leader_bytes()
    size = len(data) // 6
    log = open_log(new_disk(), LogSettings(compact_policy=True))
    log.append_as_follower(memoryview(data[:size] + data[3 * size :]), 4, NOW_MS)
    assert contents(log) == {0: b"value-0", 3: b"value-3", 4: b"value-4", 5: b"value-5"}
    assert values(read_records(log, 1)) == {3: b"value-3", 4: b"value-4", 5: b"value-5"}


def test_what_the_leader_wrote_beats_an_epoch_without_records() -> None:
    log = open_log(new_disk(), LogSettings())
    fill(log, 2, leader_epoch=4)
    log.epochs.assign(6, 2)
    log.append_as_follower(memoryview(leader_bytes(5)[2 * len(leader_bytes(1)) :]), 6, NOW_MS)
    assert log.epochs.entries == [(4, 0)]
    assert log.end == 5


# ---------------------------------------------------------------------- truncating


@pytest.mark.parametrize("offset", range(1, 30))
def test_truncation_cuts_and_the_log_goes_on(filled: Log, offset: int) -> None:
    sync(filled)
    filled.truncate(offset, NOW_MS)
    assert (filled.end, filled.synced_end, filled.truncation_generation) == (offset, offset, 1)
    assert contents(filled) == numbered(0, offset)
    fill(filled, 5)
    assert contents(filled) == numbered(0, offset + 5)


def test_truncation_takes_a_batch_whole() -> None:
    log = open_log(new_disk())
    append(log, b"a", b"b", b"c")
    append(log, b"d", b"e", b"f")
    log.truncate(5, NOW_MS)
    assert log.end == 3


def test_truncation_cleans_epochs_producers_and_times() -> None:
    log = open_log(new_disk())
    log.append_as_leader(memoryview(batch(b"a", producer=9, timestamp=NOW_MS + 1)), 1, NOW_MS)
    log.append_as_leader(memoryview(batch(b"b", producer=9, sequence=1, timestamp=NOW_MS + 5)), 2, NOW_MS)
    log.truncate(1, NOW_MS)
    assert log.epochs.entries == [(1, 0)]
    assert log.max_timestamp_offset(1) == (0, NOW_MS + 1, 1)
    again = log.append_as_leader(memoryview(batch(b"c", producer=9, sequence=1)), 3, NOW_MS)
    assert (again.base_offset, again.duplicate) == (1, False)
    assert log.epochs.entries == [(1, 0), (3, 1)]


def test_a_dropped_log_begins_anew_elsewhere(filled: Log) -> None:
    filled.truncate_fully(100)
    assert (filled.start, filled.end, filled.synced_end, filled.size_bytes) == (100, 100, 100, 0)
    assert filled.epochs.entries == []
    fill(filled, 3)
    assert contents(filled) == numbered(100, 103)


def test_a_truncation_below_the_first_segment_drops_the_log(filled: Log) -> None:
    filled.advance_start(20)
    filled.delete_old_segments(NOW_MS)
    filled.truncate(5, NOW_MS)
    assert (filled.start, filled.end, filled.segment_count) == (5, 5, 1)


# ---------------------------------------------------------------------- verifying what was found (I31)


def reopened_after_flip(position: int) -> Log:
    disk = new_disk()
    log = open_log(disk, LogSettings())
    fill(log, 10)
    log.close(clean=True)
    disk.kill()
    disk.flip(f"{DIRECTORY}/00000000000000000000.log", position)
    return open_log(disk, LogSettings(), OpenFacts(clean=True, recovery_point=10))


def test_what_was_found_is_verified_before_it_is_read() -> None:
    size = len(batch(b"value-0"))
    log = reopened_after_flip(5 * size + 70)
    for offset in range(5):
        read = log.read(offset, size, upper_bound=10, min_one_batch=True)
        assert read is not None
        read.slice.release()
    with pytest.raises(CorruptionError, match="CRC"):
        log.read(5, size, upper_bound=10, min_one_batch=True)


@pytest.mark.parametrize("byte", range(61))
def test_no_flipped_header_is_ever_served(byte: int) -> None:
    size = len(batch(b"value-0"))
    log = reopened_after_flip(5 * size + byte)
    good = 0
    for offset in range(10):
        try:
            read = log.read(offset, size, upper_bound=10, min_one_batch=True)
        except CorruptionError:
            continue
        assert read is not None
        headers = [header for _, header in iterate_headers(read.slice.read())]
        assert [(header.base_offset, header.partition_leader_epoch) for header in headers] == [(offset, 0)]
        good += 1
    assert 0 < good < 10


def scrub(log: Log, *, found_only: bool = False) -> int:
    """A whole pass; how many steps it took."""
    steps, done = 1, log.scrub(found_only=found_only)
    while done is not None:
        steps, done = steps + 1, log.scrub(done, found_only=found_only)
    return steps


@pytest.mark.parametrize("byte", range(61))
def test_a_scrub_finds_what_nobody_reads(byte: int) -> None:
    log = reopened_after_flip(5 * len(batch(b"value-0")) + byte)
    with pytest.raises(CorruptionError):
        scrub(log, found_only=True)
    with pytest.raises(CorruptionError):
        scrub(log)


def test_the_first_scrub_passes_over_what_this_process_wrote(filled: Log) -> None:
    """A bit that turned under it since is found by the later passes, which look at everything."""
    segment = next(iter(filled._segments))
    bad = bytearray(segment.file.read_at(0, 61))
    bad[60] ^= 1
    segment.file.write_at(bad, 0)
    scrub(filled, found_only=True)
    with pytest.raises(CorruptionError):
        scrub(filled)


def test_a_scrub_goes_on_over_cuts_deletions_and_new_records(filled: Log) -> None:
    assert scrub(filled) == filled.segment_count > 2
    done = filled.scrub(filled.scrub())
    filled.truncate(8, NOW_MS)
    for number in range(10):
        append(filled, b"a-longer-value-%d" % number, leader_epoch=3)
    filled.advance_start(10)
    while done is not None:
        done = filled.scrub(done)
    assert scrub(filled) == filled.segment_count
    done = filled.scrub()
    filled.delete_old_segments(NOW_MS)
    while done is not None:
        done = filled.scrub(done)
    filled.advance_start(filled.end)
    assert scrub(filled) == filled.segment_count


def test_times_are_not_read_from_bad_batches_either() -> None:
    log = reopened_after_flip(70)
    with pytest.raises(CorruptionError):
        log.offset_for_timestamp(NOW_MS, 10)


# ---------------------------------------------------------------------- deleting


def test_a_deleted_log_leaves_nothing() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 10)
    log.delete("0123456789abcdef")
    assert disk.list("data") == []


def test_a_failed_log_is_not_closed_cleanly() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    disk.fail("sync", "*.log")
    with pytest.raises(StorageError):
        log.close(clean=True)
