"""Opening a log after every kind of end: what was synced is there, what is torn is cut, what is bad is reported."""

import errno
from collections.abc import Callable

import pytest

from hightide.errors import CorruptionError, ShortLogError
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedDisk
from hightide.storage.log import Log
from hightide.storage.settings import LogSettings, OpenFacts
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
    sync,
    transactional,
)

ONE_SEGMENT = LogSettings(index_interval_bytes=100)
FIRST_LOG = f"{DIRECTORY}/00000000000000000000.log"
SIZE = len(batch(b"value-0"))


def killed(disk: SimulatedDisk, log: Log) -> None:
    log.close(clean=False)
    disk.kill()


def log_files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.image().items() if path.endswith(".log")}


# ---------------------------------------------------------------------- a clean stop


def test_a_clean_start_reads_no_batch() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    log.close(clean=True)
    disk.kill()
    disk.fail("read", "*.log", times=-1)
    log = open_log(disk, facts=OpenFacts(clean=True, recovery_point=30))
    assert (log.start, log.end, log.synced_end, log.doubtful) == (0, 30, 30, False)
    disk.heal()
    assert contents(log) == numbered(0, 30)


@pytest.mark.parametrize("start", [0, 4])
def test_segments_that_outlived_the_first_are_not_a_log(start: int) -> None:
    """R17, R19: a replica that began at them could be in sync without what it lacks."""
    disk = new_disk()
    log = open_log(disk, facts=OpenFacts(log_start=start))
    fill(log, 30)
    killed(disk, log)
    assert len(log_files(disk)) > 2
    disk.remove(f"{DIRECTORY}/{start:020d}.log")
    log = open_log(disk, facts=OpenFacts(log_start=start))
    assert (log.start, log.end, log.doubtful) == (start, start, True)
    assert list(log_files(disk)) == [f"{DIRECTORY}/{start:020d}.log"]
    fill(log, 3)
    sync(log)
    killed(disk, log)
    assert open_log(disk, facts=OpenFacts(log_start=start)).end == start + 3


@pytest.mark.covers("N11")
@pytest.mark.parametrize("count", range(1, 9))
@pytest.mark.parametrize("clean", [True, False])
def test_the_last_five_batches_of_a_producer_are_known_after_a_start_wherever_segments_rolled(
    count: int, clean: bool
) -> None:
    """R11: all five may be under way when the broker ends, and are sent again from the first on."""
    disk = new_disk()
    log = open_log(disk, LogSettings(segment_bytes=3 * SIZE, index_interval_bytes=100))
    for sequence in range(count):
        log.append_as_leader(memoryview(batch(b"v", producer=7, sequence=sequence)), 0, NOW_MS)
    sync(log)
    log.close(clean=clean)
    disk.kill()
    log = open_log(disk, facts=OpenFacts(clean=clean, recovery_point=log.end))
    for sequence in range(max(0, count - 5), count):
        again = log.append_as_leader(memoryview(batch(b"v", producer=7, sequence=sequence)), 0, NOW_MS)
        assert (again.base_offset, again.duplicate) == (sequence, True)


def test_a_clean_start_syncs_nothing() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    log.close(clean=True)
    disk.kill()
    disk.trace = []
    open_log(disk, facts=OpenFacts(clean=True, recovery_point=30))
    assert disk.trace == []


def test_a_clean_stop_survives_a_power_loss() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    log.close(clean=True)
    disk.power_loss(1, ("lost",))
    log = open_log(disk, facts=OpenFacts(clean=True, recovery_point=30))
    assert contents(log) == numbered(0, 30)


def test_appending_goes_on_after_a_clean_start() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 10)
    log.close(clean=True)
    disk.kill()
    log = open_log(disk, facts=OpenFacts(clean=True, recovery_point=10))
    fill(log, 20)
    assert contents(log) == numbered(0, 30)
    log.close(clean=True)
    disk.kill()
    assert contents(open_log(disk, facts=OpenFacts(clean=True, recovery_point=30))) == numbered(0, 30)


DERIVED = [".index", ".timeindex", ".seal"]


@pytest.mark.parametrize("clean", [True, False])
@pytest.mark.parametrize("damage", ["flipped", "zeroed", "halved", "empty", "missing"])
@pytest.mark.parametrize("suffix", [*DERIVED, ".snapshot", ".txnindex", "leader-epoch-checkpoint"])
def test_every_derived_file_is_repaired(suffix: str, damage: str, clean: bool) -> None:
    disk = new_disk()
    log = open_log(disk)
    for number in range(10):
        log.append_own(memoryview(transactional(1, number, b"x")), number // 4, NOW_MS)
        append(log, b"y", leader_epoch=number // 4, timestamp=NOW_MS + number)
    log.append_own(memoryview(marker(1, commit=False)), 3, NOW_MS)
    fill(log, 20, leader_epoch=3)
    before = facts_of(log)
    log.close(clean=True)
    disk.kill()
    for path in [path for path in disk.image() if path.endswith(suffix)]:
        data = disk.image()[path]
        match damage:
            case "flipped" if data:
                disk.flip(path, len(data) // 2)
            case "zeroed":
                disk.overwrite(path, bytes(len(data)))
            case "halved":
                disk.overwrite(path, data[: len(data) // 2])
            case "empty":
                disk.overwrite(path, b"")
            case "missing":
                disk.lose(path)
    log = open_log(disk, facts=OpenFacts(clean=clean, recovery_point=before[0], recorded_synced_end=before[0]))
    assert facts_of(log) == before


def facts_of(log: Log) -> tuple[int, object, object, object, object, object, object]:
    """Everything that a derived file tells."""
    producers = [(state.producer_id, state.next_sequence, state.transaction_start) for state in log.producers.active]
    times = [log.offset_for_timestamp(NOW_MS + late, log.end) for late in range(-1, 11)]
    youngest = log.max_timestamp_offset(log.end)
    return log.end, contents(log), log.aborted_transactions(0, log.end), log.epochs.entries, producers, times, youngest


# ---------------------------------------------------------------------- kill -9 and power loss


def test_a_killed_process_loses_nothing_it_wrote() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    killed(disk, log)
    log = open_log(disk)
    assert (log.end, log.synced_end, log.doubtful) == (30, 30, False)
    assert contents(log) == numbered(0, 30)


@pytest.mark.parametrize("seed", range(20))
def test_a_power_loss_keeps_what_was_synced(seed: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 17)
    sync(log)
    fill(log, 13)
    disk.power_loss(seed)
    log = open_log(disk, facts=OpenFacts(recorded_synced_end=17))
    assert 17 <= log.end <= 30
    assert contents(log) == numbered(0, log.end)
    fill(log, 5)
    assert contents(log) == numbered(0, log.end)


@pytest.mark.parametrize("seed", range(20))
def test_recovery_twice_gives_the_same_bytes(seed: int) -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 17)
    sync(log)
    fill(log, 13)
    disk.power_loss(seed)
    facts = OpenFacts(recorded_synced_end=17)
    killed(disk, open_log(disk, facts=facts))
    once = disk.image()
    killed(disk, open_log(disk, facts=facts))
    assert disk.image() == once


@pytest.mark.parametrize("cut", range(SIZE))
def test_a_tail_torn_at_any_byte_is_cut(cut: int) -> None:
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 5)
    killed(disk, log)
    disk.overwrite(FIRST_LOG, log_files(disk)[FIRST_LOG][: 4 * SIZE + cut])
    log = open_log(disk, ONE_SEGMENT, OpenFacts(recorded_synced_end=4))
    assert (log.end, log.doubtful) == (4, False)
    assert contents(log) == numbered(0, 4)
    assert len(log_files(disk)[FIRST_LOG]) == 4 * SIZE
    fill(log, 2)
    assert contents(log) == numbered(0, 6)


@pytest.mark.parametrize("cut", range(0, SIZE, 5))
def test_a_tail_of_zeros_is_cut(cut: int) -> None:
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 5)
    killed(disk, log)
    disk.overwrite(FIRST_LOG, log_files(disk)[FIRST_LOG][: 4 * SIZE + cut] + bytes(500))
    log = open_log(disk, ONE_SEGMENT, OpenFacts(recorded_synced_end=4))
    assert (log.end, log.doubtful) == (4, False)


@pytest.mark.parametrize("byte", range(SIZE))
def test_any_flip_in_an_unsynced_last_batch_cuts_or_keeps_it_whole(byte: int) -> None:
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 5)
    killed(disk, log)
    disk.flip(FIRST_LOG, 4 * SIZE + byte)
    log = open_log(disk, ONE_SEGMENT, OpenFacts(recorded_synced_end=4))
    # No CRC covers a batch's leader epoch, and above the recovery point the history can't contradict it.
    assert log.end == (5 if 12 <= byte < 16 else 4)
    assert contents(log) == numbered(0, log.end)


# ---------------------------------------------------------------------- corruption is not truncation (R17)

FLOORS: list[Callable[[int], OpenFacts]] = [
    lambda end: OpenFacts(recovery_point=end),
    lambda end: OpenFacts(recorded_synced_end=end),
    lambda end: OpenFacts(high_watermark=end),
    lambda end: OpenFacts(clean=True, recovery_point=end),
]
WITHOUT_R17 = ALL_ON.without("r17_quarantine_synced_corruption")


@pytest.mark.parametrize("facts", FLOORS)
@pytest.mark.parametrize("damage", ["flip", "cut", "zero", "missing"])
def test_damage_below_the_floor_is_reported_and_nothing_is_cut(damage: str, facts: Callable[[int], OpenFacts]) -> None:
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 10)
    killed(disk, log)
    damage_batch(disk, damage)
    before = log_files(disk)
    with pytest.raises(CorruptionError):
        open_log(disk, ONE_SEGMENT, facts(8))
    assert log_files(disk) == before
    disk.kill()
    if damage != "missing":
        log = open_log(disk, ONE_SEGMENT, facts(8), WITHOUT_R17)
        assert log.end < 8, "without R17 synced records are quietly gone"


def test_a_whole_log_below_its_high_watermark_is_short_and_not_rotten() -> None:
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 10)
    killed(disk, log)
    damage_batch(disk, "cut")
    with pytest.raises(ShortLogError):
        open_log(disk, ONE_SEGMENT, OpenFacts(recorded_synced_end=9, high_watermark=8))
    with pytest.raises(CorruptionError) as caught:
        open_log(disk, ONE_SEGMENT, OpenFacts(recorded_synced_end=9, high_watermark=7))
    assert not isinstance(caught.value, ShortLogError)


def damage_batch(disk: SimulatedDisk, damage: str) -> None:
    """Damage batch 7."""
    data = log_files(disk)[FIRST_LOG]
    match damage:
        case "flip":
            disk.flip(FIRST_LOG, 7 * SIZE + 65)
        case "cut":
            disk.overwrite(FIRST_LOG, data[: 7 * SIZE])
        case "zero":
            disk.overwrite(FIRST_LOG, data[: 7 * SIZE] + bytes(3 * SIZE))
        case "missing":
            disk.lose(FIRST_LOG)


def test_a_missing_segment_is_not_a_shorter_log() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    bases = sorted(log_files(disk))
    killed(disk, log)
    disk.lose(bases[1])
    with pytest.raises(CorruptionError):
        open_log(disk, facts=OpenFacts(recorded_synced_end=30))


def test_valid_batches_behind_a_cut_make_the_log_doubtful() -> None:
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 10)
    killed(disk, log)
    disk.flip(FIRST_LOG, 7 * SIZE + 65)
    log = open_log(disk, ONE_SEGMENT, OpenFacts(recorded_synced_end=7))
    assert (log.end, log.doubtful) == (7, True)


def test_valid_batches_in_later_segments_make_it_doubtful_too() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    killed(disk, log)
    disk.flip(FIRST_LOG, 5 * SIZE + 65)
    log = open_log(disk, facts=OpenFacts(recorded_synced_end=5))
    assert (log.end, log.doubtful, log.segment_count) == (5, True, 1)
    fill(log, 10)
    assert contents(log) == numbered(0, 15)


def test_a_wrong_epoch_below_the_recovery_point_is_corruption() -> None:
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 10)
    sync(log)
    assert log.write_checkpoints() == 10
    killed(disk, log)
    disk.flip(FIRST_LOG, 9 * SIZE + 15)
    with pytest.raises(CorruptionError, match="leader epoch"):
        open_log(disk, ONE_SEGMENT, OpenFacts(recovery_point=10))


def test_batches_of_an_older_epoch_behind_newer_ones_are_cut() -> None:
    """What a truncation cut may come back behind what was written after it."""
    disk = new_disk()
    log = open_log(disk, ONE_SEGMENT)
    fill(log, 10, leader_epoch=1)
    before = log_files(disk)[FIRST_LOG]
    log.truncate(5, NOW_MS)
    fill(log, 2, leader_epoch=2)
    killed(disk, log)
    disk.overwrite(FIRST_LOG, log_files(disk)[FIRST_LOG] + before[7 * SIZE :])
    log = open_log(disk, ONE_SEGMENT)
    assert log.end == 7
    assert log.epochs.entries == [(1, 0), (2, 5)]


# ---------------------------------------------------------------------- what a failed fsync left (R19)


@pytest.mark.parametrize("on", [True, False])
def test_pages_that_only_look_clean_are_rewritten(on: bool) -> None:
    rules: Rules = ALL_ON if on else ALL_ON.without("r19_rewrite_unsynced_tail")
    disk = new_disk()
    log = open_log(disk)
    fill(log, 3)
    sync(log)
    fill(log, 3)
    disk.fail("sync", "*.log")
    plan = log.unsynced_files()
    with pytest.raises(OSError, match="Input/output"):
        plan.files[0].sync()
    killed(disk, log)
    log = open_log(disk, facts=OpenFacts(recorded_synced_end=3), rules=rules)
    assert log.synced_end == 6
    log.close(clean=False)
    disk.power_loss(1, ("lost",))
    survived = open_log(disk, facts=OpenFacts(recorded_synced_end=3)).end
    assert survived == (6 if on else 3), "without R19 the second sync lied"


@pytest.mark.parametrize("on", [True, False])
def test_names_are_synced_before_offsets_count(on: bool) -> None:
    disk = new_disk()
    log = open_log(disk, rules=ALL_ON if on else ALL_ON.without("r19_sync_directory_entries"))
    fill(log, 30)
    sync(log)
    assert log.synced_end == 30
    disk.power_loss(1, ("lost",))
    if on:
        assert contents(open_log(disk, facts=OpenFacts(recorded_synced_end=30))) == numbered(0, 30)
    else:
        with pytest.raises(CorruptionError):
            open_log(disk, facts=OpenFacts(recorded_synced_end=30))


# ---------------------------------------------------------------------- what recovery rebuilds


def test_producers_and_epochs_come_back_from_the_batches() -> None:
    disk = new_disk()
    log = open_log(disk)
    for sequence in range(20):
        data = batch(b"%d" % sequence, producer=9, sequence=sequence)
        log.append_as_leader(memoryview(data), sequence // 5, NOW_MS)
    killed(disk, log)
    log = open_log(disk)
    assert log.epochs.entries == [(0, 0), (1, 5), (2, 10), (3, 15)]
    again = log.append_as_leader(memoryview(batch(b"19", producer=9, sequence=19)), 4, NOW_MS)
    assert (again.duplicate, again.base_offset) == (True, 19)


def test_the_log_start_is_remembered_and_leftovers_below_it_go() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    killed(disk, log)
    log = open_log(disk, facts=OpenFacts(log_start=20))
    assert (log.start, log.end) == (20, 30)
    assert min(log_files(disk)) > FIRST_LOG
    assert contents(log) == numbered(20, 30)


def test_a_gap_below_the_log_start_is_an_interrupted_deletion() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    bases = sorted(log_files(disk))
    killed(disk, log)
    disk.lose(bases[1])
    start = int(bases[2].rpartition("/")[2][:20])
    log = open_log(disk, facts=OpenFacts(log_start=start, recorded_synced_end=30))
    assert contents(log) == numbered(start, 30)


def test_a_log_that_ends_below_its_start_begins_anew_there() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 10)
    killed(disk, log)
    log = open_log(disk, facts=OpenFacts(log_start=50))
    assert (log.start, log.end, log.segment_count) == (50, 50, 1)
    fill(log, 2)
    killed(disk, log)
    assert contents(open_log(disk, facts=OpenFacts(log_start=50))) == numbered(50, 52)


def test_condemned_files_are_finished_off() -> None:
    disk = new_disk()
    settings = SMALL_SEGMENTS._replace(file_delete_delay_ms=60_000)
    log = open_log(disk, settings)
    fill(log, 30)
    log.advance_start(29)
    log.delete_old_segments(NOW_MS)
    assert any(path.endswith(".deleted") for path in disk.image())
    killed(disk, log)
    log = open_log(disk, settings, OpenFacts(log_start=29))
    assert not any(path.endswith(".deleted") for path in disk.image())
    assert contents(log) == numbered(29, 30)


def test_a_full_disk_does_not_keep_a_log_from_being_read() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    killed(disk, log)
    for pattern in ("*.index", "*.timeindex", "*.seal", "*.snapshot", "*.tmp"):
        disk.fail("write", pattern, code=errno.ENOSPC, times=-1)
    log = open_log(disk)
    assert contents(log) == numbered(0, 30)


def test_a_failing_disk_does() -> None:
    disk = new_disk()
    log = open_log(disk)
    fill(log, 30)
    killed(disk, log)
    disk.fail("write", "*.seal", code=errno.EIO)
    with pytest.raises(OSError, match="Input/output"):
        open_log(disk)
