"""Retention: by time, by size, never past the high watermark, never because a clock jumped."""

import pytest

from hightide.storage.log import Log
from hightide.storage.retention import RetentionClock
from hightide.storage.settings import FOREVER, LogSettings
from tests.unit.storage.logs import NOW_MS, SMALL_SEGMENTS, append, contents, fill, new_disk, open_log, sync

HOUR_MS = 3_600_000


def retain(log: Log, now_ms: int, high_watermark: int | None = None) -> int:
    """One pass as the node does it; returns the new start."""
    log.apply_retention(log.plan_retention(now_ms, log.end if high_watermark is None else high_watermark))
    log.delete_old_segments(now_ms)
    return log.start


def aged_log(settings: LogSettings) -> Log:
    """A segment for each of ten hours, two records in each."""
    hourly = settings._replace(segment_ms=HOUR_MS // 2, message_timestamp_after_max_ms=100 * HOUR_MS)
    log = open_log(new_disk(), hourly)
    for hour in range(10):
        append(log, b"a", timestamp=NOW_MS + hour * HOUR_MS)
        append(log, b"b", timestamp=NOW_MS + hour * HOUR_MS)
    assert log.segment_count == 10
    return log


def test_a_segment_goes_when_its_youngest_record_is_too_old() -> None:
    log = aged_log(LogSettings(retention_ms=5 * HOUR_MS))
    assert retain(log, NOW_MS + 9 * HOUR_MS) == 8
    assert (log.segment_count, min(contents(log))) == (6, 8)


def test_an_old_active_segment_goes_too() -> None:
    log = aged_log(LogSettings(retention_ms=HOUR_MS))
    assert retain(log, NOW_MS + 100 * HOUR_MS) == log.end == 20
    assert (log.segment_count, log.size_bytes) == (1, 0)
    fill(log, 2)
    assert sorted(contents(log)) == [20, 21]


def test_nothing_goes_past_the_high_watermark() -> None:
    log = aged_log(LogSettings(retention_ms=HOUR_MS))
    assert retain(log, NOW_MS + 100 * HOUR_MS, high_watermark=5) == 4
    log = open_log(new_disk(), SMALL_SEGMENTS._replace(retention_bytes=0))
    fill(log, 30)
    assert 0 < retain(log, NOW_MS, high_watermark=17) <= 17


def test_the_oldest_segments_go_until_the_size_fits() -> None:
    log = open_log(new_disk(), SMALL_SEGMENTS._replace(retention_bytes=1500, retention_ms=FOREVER))
    fill(log, 50)
    before = log.size_bytes
    start = retain(log, NOW_MS)
    assert start > 0
    assert 1500 <= log.size_bytes < 1500 + SMALL_SEGMENTS.segment_bytes < before


@pytest.mark.parametrize(
    "settings", [LogSettings(retention_ms=FOREVER), LogSettings(retention_ms=0, delete_policy=False)]
)
def test_what_is_kept_for_ever_is_kept(settings: LogSettings) -> None:
    assert retain(aged_log(settings), NOW_MS + 10_000 * HOUR_MS) == 0


def test_records_without_a_time_are_as_old_as_their_file() -> None:
    log = open_log(new_disk(), LogSettings(retention_ms=HOUR_MS))
    append(log, b"a", timestamp=-1)
    assert retain(log, NOW_MS + HOUR_MS) == 0
    assert retain(log, NOW_MS + 2 * HOUR_MS) == 1


def test_files_go_after_their_delay_and_the_directory_is_synced() -> None:
    disk = new_disk()
    log = open_log(disk, SMALL_SEGMENTS._replace(file_delete_delay_ms=1000))
    fill(log, 30)
    sync(log)
    log.advance_start(29)
    removed = log.delete_old_segments(NOW_MS)
    assert removed == sum(path.endswith(".log.deleted") for path in disk.image())
    log.delete_old_segments(NOW_MS + 999)
    assert any(path.endswith(".deleted") for path in disk.image())
    log.delete_old_segments(NOW_MS + 1000)
    assert not any(path.endswith(".deleted") for path in disk.image())
    assert len(log.unsynced_files().files) == 1


def test_deleted_records_are_gone_for_readers_before_their_files_are() -> None:
    log = open_log(new_disk(), LogSettings())
    fill(log, 10)
    log.advance_start(4)
    log.advance_start(2)
    assert (log.start, log.delete_old_segments(NOW_MS)) == (4, 0)
    assert sorted(contents(log)) == list(range(4, 10))


def test_files_stay_until_the_start_above_them_is_checkpointed() -> None:
    log = open_log(new_disk())
    fill(log, 30)
    log.advance_start(29)
    before = log.segment_count
    assert log.delete_old_segments(NOW_MS, checkpointed_start=0) == 0
    assert log.delete_old_segments(NOW_MS, checkpointed_start=15) > 0
    assert 1 < log.segment_count < before
    assert log.delete_old_segments(NOW_MS, checkpointed_start=29) > 0


# ---------------------------------------------------------------------- the clock


def test_the_believed_time_follows_the_wall_clock() -> None:
    clock = RetentionClock(NOW_MS, 100.0)
    for second in range(1, 100):
        assert clock.now_ms(NOW_MS + second * 1000, 100.0 + second) == NOW_MS + second * 1000


def test_a_forward_jump_deletes_nothing() -> None:
    log = aged_log(LogSettings(retention_ms=48 * HOUR_MS))
    clock = RetentionClock(NOW_MS + 10 * HOUR_MS, 0.0)
    year_ms = 365 * 24 * HOUR_MS
    for hour in range(1, 25):
        believed = clock.now_ms(NOW_MS + (10 + hour) * HOUR_MS + year_ms, hour * 3600.0)
        assert retain(log, believed) == 0
    assert retain(log, NOW_MS + year_ms) == log.end, "without the clock everything would be gone"


def test_a_clock_that_comes_back_is_believed_at_once() -> None:
    clock = RetentionClock(NOW_MS, 0.0)
    assert clock.now_ms(NOW_MS + HOUR_MS, 1.0) == NOW_MS + 1010
    assert clock.now_ms(NOW_MS + 2000, 2.0) == NOW_MS + 2000
    assert clock.now_ms(NOW_MS - HOUR_MS, 3.0) == NOW_MS - HOUR_MS


def test_many_short_looks_are_one_long_one() -> None:
    clock = RetentionClock(NOW_MS, 0.0)
    for step in range(1, 10_001):
        believed = clock.now_ms(NOW_MS + HOUR_MS, step * 0.0001)
    assert NOW_MS + 990 <= believed <= NOW_MS + 1010
