"""Compaction on a simulated disk: what survives is what a plain model says, whatever the codec, batch or moment."""

import pytest

from hightide.errors import CorruptionError
from hightide.storage.compaction import compact
from hightide.storage.compaction_plans import Cleaned
from hightide.wire.batches import build_batch
from hightide.wire.compression import Codec
from hightide.wire.records import (
    HEADER_BYTES,
    LENGTH_OVERHEAD,
    BatchHeader,
    Record,
    iterate_records,
    patch_crc,
    read_header,
)
from tests.storage.compacting import COMPACTED, CompactingMachine, stored_records
from tests.storage.machine import NOW, ORDERS, read_all


@pytest.fixture
def machine() -> CompactingMachine:
    machine = CompactingMachine()
    machine.boot()
    return machine


def write(machine: CompactingMachine, rounds: int = 3, keys: int = 4) -> None:
    for number in range(rounds):
        for key in range(keys):
            machine.put((b"key %d" % key, b"value %d of %d" % (number, key)))
        machine.log.roll()
    machine.commit()


def test_the_last_value_of_each_key_survives(machine: CompactingMachine) -> None:
    write(machine)
    before = machine.log.size_bytes
    assert machine.compact() is not None
    assert [(record.key, record.value) for record in stored_records(machine.log)] == [
        (b"key %d" % key, b"value 2 of %d" % key) for key in range(4)
    ]
    assert machine.difference() is None
    assert machine.log.size_bytes < before
    assert machine.log.end == 12


def test_the_log_is_the_same_after_a_restart(machine: CompactingMachine) -> None:
    write(machine)
    machine.compact()
    stored = read_all(machine.log)
    machine.restart()
    assert read_all(machine.log) == stored
    machine.stop()
    machine.restart()
    assert read_all(machine.log) == stored
    assert machine.log.producers.get(7).next_sequence == 12  # type: ignore[union-attr]


@pytest.mark.parametrize("codec", list(Codec))
def test_batches_keep_their_codec_headers_and_places(machine: CompactingMachine, codec: Codec) -> None:
    headers = [("trace", b"\x00\xff"), ("none", None)]
    for number in range(3):
        pairs = [(b"key %d" % key, b"%d" % number * 20) for key in range(number, 6)]
        machine.put(*pairs, codec=codec, headers=headers)
    machine.log.roll()
    machine.commit()
    assert machine.compact() is not None
    assert machine.difference() is None
    batches = [read_header(batch) for batch in read_all(machine.log).values()]
    assert [(header.base_offset, header.last_offset, header.record_count) for header in batches] == [
        (0, 5, 1), (6, 10, 1), (11, 14, 4),
    ]  # fmt: skip
    assert {header.codec for header in batches} == {codec}
    assert [header.base_sequence for header in batches] == [0, 6, 11]


# ---------------------------------------------------------------------- tombstones


def test_a_tombstone_stays_for_delete_retention_and_says_so(machine: CompactingMachine) -> None:
    machine.put((b"k", b"v"), (b"other", b"1"))
    base = machine.put((b"k", None), (b"other", b"2"), timestamp=NOW - 77)
    machine.log.roll()
    machine.commit()
    machine.compact(NOW)
    batch = read_all(machine.log)[base]
    header = read_header(batch)
    assert header.delete_horizon == header.base_timestamp == NOW + COMPACTED.delete_retention_ms
    assert [(record.key, record.timestamp) for record in iterate_records(batch, 0, header)] == [
        (b"k", NOW - 77), (b"other", NOW - 77),
    ]  # fmt: skip
    dirty(machine)
    machine.compact(NOW + COMPACTED.delete_retention_ms - 1)
    assert [record.key for record in stored_records(machine.log)] == [b"k", b"other", b"more"]
    assert machine.log.tombstone_horizon == 0
    dirty(machine)
    machine.compact(NOW + COMPACTED.delete_retention_ms)
    assert [record.key for record in stored_records(machine.log)] == [b"other", b"more"]
    assert machine.difference() is None
    assert machine.log.tombstone_horizon == base + 1


def dirty(machine: CompactingMachine) -> None:
    """Something to do for another round."""
    machine.put((b"more", b"."))
    machine.log.roll()
    machine.commit()


def test_a_batch_with_the_brokers_time_keeps_it(machine: CompactingMachine) -> None:
    machine.put((b"k", b"1"), (b"x", None), append_time=NOW + 5)
    machine.put((b"k", b"2"), append_time=NOW + 6)
    machine.log.roll()
    machine.commit()
    machine.compact()
    assert [(record.key, record.timestamp) for record in stored_records(machine.log)] == [
        (b"x", NOW + 5), (b"k", NOW + 6),
    ]  # fmt: skip
    assert machine.difference() is None


# ---------------------------------------------------------------------- producers, epochs, transactions


def test_producers_go_on_where_they_were_even_when_only_the_log_tells(machine: CompactingMachine) -> None:
    for producer_id in (20, 21):
        machine.put((b"k", b"%d" % producer_id), (b"x", b"."), producer_id=producer_id)
        machine.put((b"k", b"again"), producer_id=producer_id)
    write(machine)
    machine.put((b"k", b"last"), (b"x", b"last"))
    machine.log.roll()
    machine.commit()
    machine.compact()
    for path in [path for path in machine.disk.image() if path.endswith(".snapshot")]:
        machine.disk.lose(path)
    machine.restart()
    states = {state.producer_id: state.next_sequence for state in machine.log.producers.active}
    assert states == {7: 14, 20: 3, 21: 3}
    first, *kept = [header for header in headers(machine) if not header.record_count]
    assert (first.base_offset, first.producer_id) == (0, -1), "where the epoch began, and nobody's any more"
    assert [(header.producer_id, header.base_sequence) for header in kept[:2]] == [(20, 2), (21, 2)]


def test_snapshots_inside_a_compacted_segment_go(machine: CompactingMachine) -> None:
    write(machine, rounds=6, keys=3)
    assert machine.log.producers.snapshots() == [3, 6, 9, 12, 15, 18]
    machine.compact()
    bases = sorted(int(path[-24:-4]) for path in machine.disk.image() if path.endswith(".log") and "orders-0" in path)
    assert set(machine.log.producers.snapshots()) == {*bases[1:], 18}


def headers(machine: CompactingMachine) -> list[BatchHeader]:
    return [read_header(batch) for batch in read_all(machine.log).values()]


def test_a_segment_still_begins_where_the_one_before_ends(machine: CompactingMachine) -> None:
    write(machine, rounds=6, keys=8)
    machine.compact()
    names = sorted(path for path in machine.disk.image() if path.endswith(".log"))
    bases = [int(path.rpartition("/")[2].removesuffix(".log")) for path in names if "/orders-0/" in path]
    ends = {header.next_offset for header in headers(machine)}
    assert len(bases) > 2
    assert set(bases[1:]) <= ends


def test_aborted_records_go_and_markers_follow(machine: CompactingMachine) -> None:
    machine.put((b"k", b"committed before"))
    machine.put((b"k", b"aborted"), producer_id=8, transactional=True)
    machine.abort(8)
    machine.put((b"x", b"1"))
    machine.log.roll()
    machine.commit()
    log = machine.log

    def round_at(now_ms: int) -> list[bool]:
        cleanable = log.plan_compaction(now_ms, log.synced_end, machine.directory.clean_end(ORDERS))
        assert cleanable is not None
        machine.model.batches.pop(1, None)
        machine.compact(now_ms)
        return [header.is_control for header in headers(machine)]

    assert round_at(NOW) == [False, False, True, False], "the last batch of a live producer stays, emptied"
    assert log.aborted_transactions(0, log.end) == [(8, 1)], "as long as the marker is there"
    log.producers.expire(NOW * 2, 1)
    dirty(machine)
    assert round_at(NOW + 1) == [False, True, False, False], "the marker waits for its horizon"
    dirty(machine)
    assert True in round_at(NOW + 2)
    dirty(machine)
    assert True not in round_at(NOW + 10_000)
    assert log.tombstone_horizon == 3, "whoever has the aborted records and not the marker would wait for ever"
    assert [(record.key, record.value) for record in stored_records(log)][:2] == [
        (b"k", b"committed before"), (b"x", b"1"),
    ]  # fmt: skip


# ---------------------------------------------------------------------- when it is due


def test_the_dirty_ratio_decides(machine: CompactingMachine) -> None:
    machine.log.configure(COMPACTED._replace(min_cleanable_dirty_ratio=0.5))
    write(machine)
    assert machine.compact() is not None
    machine.put((b"key 0", b"new"))
    machine.log.roll()
    machine.commit()
    assert machine.compact() is None
    write(machine, rounds=4)
    assert machine.compact() is not None


def test_young_records_wait_and_old_ones_do_not(machine: CompactingMachine) -> None:
    machine.log.configure(COMPACTED._replace(min_compaction_lag_ms=100, min_cleanable_dirty_ratio=1.0))
    write(machine)
    assert machine.compact(NOW + 100) is None, "the ratio is not above one"
    machine.log.configure(
        COMPACTED._replace(min_compaction_lag_ms=100, max_compaction_lag_ms=500, min_cleanable_dirty_ratio=1.0)
    )
    assert machine.compact(NOW + 99) is None
    assert machine.compact(NOW + 100) is None
    assert machine.compact(NOW + 501) is not None


def test_what_must_be_compacted_in_time_is_not_active_for_longer(machine: CompactingMachine) -> None:
    machine.log.configure(COMPACTED._replace(max_compaction_lag_ms=50))
    machine.put((b"k", b"1"), timestamp=NOW)
    machine.put((b"k", b"2"), timestamp=NOW + 50)
    assert machine.log.segment_count == 1
    machine.put((b"k", b"3"), timestamp=NOW + 51)
    assert machine.log.segment_count == 2


def test_more_keys_than_memory_take_more_rounds(machine: CompactingMachine) -> None:
    write(machine, rounds=4, keys=9)
    ends = []
    for _ in range(20):
        finished = machine.compact(keys_max=5)
        if finished is None:
            break
        assert machine.difference() is None
        ends.append(finished.clean_end)
    assert ends == sorted(set(ends))
    assert len(ends) > 3
    assert ends[-1] == 36
    assert machine.model.view() == {b"key %d" % key: b"value 3 of %d" % key for key in range(9)}


def test_nothing_changes_where_nothing_is_to_do(machine: CompactingMachine) -> None:
    for key in range(3):
        machine.put((b"key %d" % key, b"v" * 600))
        machine.log.roll()
    machine.commit()
    before = machine.disk.image()
    machine.compact()
    names = [path for path in before if path.endswith((".log", ".index", ".seal"))]
    assert {name: machine.disk.image()[name] for name in names} == {name: before[name] for name in names}


# ---------------------------------------------------------------------- reading


def test_every_offset_and_every_time_can_be_asked_for(machine: CompactingMachine) -> None:
    """I32, with gaps: the next record there is, as a walk over all of them finds it."""
    for number in range(8):
        for key in range(4):
            machine.put((b"key %d" % (key * (number % 3)), b"v"), timestamp=NOW + 10 * number + key)
        machine.log.roll()
    machine.commit()
    machine.compact()
    log, batches = machine.log, [(base, read_header(batch)) for base, batch in read_all(machine.log).items()]
    for process in range(2):
        records = stored_records(log)
        for offset in range(log.start, log.end):
            expected = next(base for base, header in batches if header.last_offset >= offset)
            read = log.read(offset, 1, upper_bound=log.end, min_one_batch=True)
            assert read is not None
            assert read_header(read.slice.read()).base_offset == expected
            read.slice.release()
        for timestamp in range(NOW - 1, NOW + 85):
            found = log.offset_for_timestamp(timestamp, log.end)
            expected_record = next((record for record in records if record.timestamp >= timestamp), None)
            assert (None if found is None else found[0]) == (expected_record and expected_record.offset)
        youngest = max(record.timestamp for record in records)
        newest = log.max_timestamp_offset(log.end)
        assert newest is not None
        assert newest[:2] == next((r.offset, r.timestamp) for r in records if r.timestamp == youngest)
        if process == 0:
            machine.restart()
            log = machine.log


def test_a_slice_in_flight_keeps_the_old_bytes(machine: CompactingMachine) -> None:
    write(machine)
    read = machine.log.read(0, 1 << 20, upper_bound=machine.log.end, min_one_batch=True)
    assert read is not None
    before = read.slice.read()
    machine.compact()
    machine.log.delete_old_segments(NOW)
    assert read.slice.read() == before
    read.slice.release()


# ---------------------------------------------------------------------- other policies, other bytes


def test_a_topic_that_is_no_longer_compacted_still_opens(machine: CompactingMachine) -> None:
    write(machine)
    machine.compact()
    kept = stored_records(machine.log)
    machine.settings = COMPACTED._replace(compact_policy=False, delete_policy=True)
    machine.restart()
    assert stored_records(machine.log) == kept
    assert machine.log.has_gaps
    machine.put((b"key 0", b"later"))
    machine.commit()
    assert machine.compact() is None


def test_compacted_and_deleted(machine: CompactingMachine) -> None:
    machine.log.configure(COMPACTED._replace(delete_policy=True, retention_ms=1000))
    write(machine)
    machine.compact()
    assert machine.log.plan_retention(NOW + 1000, machine.log.end) == 0
    assert machine.log.plan_retention(NOW + 1001, machine.log.end) > 0


def test_records_without_a_key_go_and_batches_nobody_can_read_stay(machine: CompactingMachine) -> None:
    """Both can only be there from a time before the topic was compacted."""
    machine.log.configure(COMPACTED._replace(compact_policy=False))
    machine.put((None, b"no key"), (b"k", b"1"))
    garbage = bytearray(build_batch([Record(timestamp=NOW, key=b"k", value=b"2")], codec=Codec.GZIP))
    garbage[HEADER_BYTES + 3] ^= 0xFF
    patch_crc(garbage, 0, len(garbage) - LENGTH_OVERHEAD)
    machine.log.append_as_leader(memoryview(garbage), machine.epoch, NOW)
    machine.put((b"k", b"3"))
    machine.log.roll()
    machine.commit()
    machine.log.configure(COMPACTED)
    cleanable = machine.log.plan_compaction(NOW, machine.log.end, 0)
    assert cleanable is not None
    job = machine.log.compaction_job(cleanable, NOW, 100, {})
    for step in compact(machine.disk, job):
        if isinstance(step, Cleaned):
            assert machine.take_over(step, 0, NOW)
    stored = read_all(machine.log)
    assert [read_header(batch).record_count for batch in stored.values()] == [0, 1, 1]
    assert bytes(garbage) in stored.values()


def test_bad_bytes_are_not_compacted(machine: CompactingMachine) -> None:
    write(machine)
    name = sorted(path for path in machine.disk.image() if path.endswith(".log") and "/orders-0/" in path)[0]
    machine.disk.flip(name, 70)
    with pytest.raises(CorruptionError):
        machine.compact()
    assert machine.log.size_bytes > 0


def test_a_cut_in_a_gap_ends_where_the_last_batch_ends(machine: CompactingMachine) -> None:
    """After an unclean election only; a crash right after it must not look like lost records."""
    write(machine, rounds=3, keys=4)
    machine.compact()
    point = machine.log.cut_point(7)
    assert point == 1, "the batch that begins the epoch is all that is left below 8"
    machine.directory.lower(ORDERS, machine.log.topic_id, machine.log.truncation_generation + 1, point)
    machine.log.truncate(7, NOW)
    assert machine.log.end == 1
    machine.restart()
    assert machine.log.end == 1
