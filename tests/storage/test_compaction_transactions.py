"""Compaction of transactions: whoever reads committed records sees the same before and after, wherever they read.

Records of aborted transactions go, markers stay until nobody can need them. A copy of the log, made at any time, has no
transaction that never ends (I26), shows nothing that was aborted (I25), and takes up every producer where it was.
"""

from random import Random
from struct import Struct

import pytest

from hightide.sim.disk import SimulatedDisk
from hightide.storage.compaction import compact
from hightide.storage.compaction_plans import Cleaned, Finished
from hightide.storage.log import Log
from hightide.storage.settings import OpenFacts
from hightide.wire.batches import build_batch
from hightide.wire.records import ControlType, Record, control_key, control_type_of, iterate_records, read_header
from tests.storage.compacting import COMPACTED, CompactingMachine, last_batches
from tests.storage.machine import NOW, ORDERS, ORDERS_ID, read_all

MARKER = Struct(">hi")
PRODUCERS = (20, 21, 22)


def end_transaction(machine: CompactingMachine, producer_id: int, kind: ControlType) -> None:
    """The coordinator's marker."""
    marker = Record(timestamp=NOW, key=control_key(kind), value=MARKER.pack(0, 3))
    batch = build_batch([marker], producer_id=producer_id, producer_epoch=0, transactional=True, control=True)
    machine.log.append_own(memoryview(batch), machine.epoch, NOW)


def committed_view(log: Log) -> dict[bytes | None, bytes]:
    """What a read_committed consumer makes of a log, by Kafka's algorithm."""
    aborted = sorted(log.aborted_transactions(log.start, log.end), key=lambda entry: entry[1])
    hidden: set[int] = set()
    last: dict[bytes | None, bytes | None] = {}
    for batch in read_all(log).values():
        header = read_header(batch)
        while aborted and aborted[0][1] <= header.last_offset:
            hidden.add(aborted.pop(0)[0])
        records = list(iterate_records(batch, 0, header))
        if header.is_control:
            if records and control_type_of(records[0].key) is ControlType.ABORT:
                hidden.discard(header.producer_id)
        elif not (header.is_transactional and header.producer_id in hidden):
            last |= {record.key: record.value for record in records}
    return {key: value for key, value in last.items() if value is not None}


def copy_of(machine: CompactingMachine) -> Log:
    """What a follower has that fetches everything now."""
    disk = SimulatedDisk(now_ms=lambda: NOW)
    facts = OpenFacts(tombstone_horizon=machine.log.tombstone_horizon)
    copy = Log.open(disk, "f", "orders", 0, ORDERS_ID, machine.settings, facts=facts, now_ms=NOW)
    for batch in read_all(machine.log).values():
        copy.append_as_follower(memoryview(bytearray(batch)), machine.epoch, NOW)
    return copy


class Life:
    """Writers of a topic, some of them in transactions."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.machine = CompactingMachine(settings=COMPACTED._replace(segment_bytes=700, delete_retention_ms=100))
        self.machine.boot()
        self.open: set[int] = set()

    def write(self) -> None:
        random = self.random
        producer_id = random.choice((7, *PRODUCERS))
        pairs = [(b"k%d" % random.randrange(6), random.choice([None, random.randbytes(30)])) for _ in range(3)]
        self.machine.put(*pairs, producer_id=producer_id, transactional=producer_id in PRODUCERS)
        if producer_id in PRODUCERS:
            self.open.add(producer_id)
            if random.random() < 0.5:
                self.end(producer_id)

    def end(self, producer_id: int) -> None:
        self.open.discard(producer_id)
        end_transaction(self.machine, producer_id, self.random.choice([ControlType.COMMIT, ControlType.ABORT]))

    def end_all(self) -> None:
        for producer_id in sorted(self.open):
            self.end(producer_id)


@pytest.mark.parametrize("seed", range(12))
def test_what_is_committed_looks_the_same(seed: int) -> None:
    life, now_ms = Life(seed), NOW
    machine = life.machine
    for _ in range(8):
        for _ in range(life.random.randrange(4, 14)):
            life.write()
        life.end_all()
        machine.log.roll()
        machine.commit()
        before = committed_view(machine.log)
        now_ms += life.random.randrange(150)
        if life.random.random() < 0.3:
            machine.log.producers.expire(NOW * 2, 1)  # nobody hears of them any more
        compact_once(machine, now_ms)
        assert committed_view(machine.log) == before
        copy = copy_of(machine)
        assert committed_view(copy) == before
        assert copy.last_stable_offset(copy.end) == copy.end, "I26: a transaction that never ends"
        for state in machine.log.producers.active:
            known = copy.producers.get(state.producer_id)
            assert known is not None
            assert (known.epoch, known.next_sequence) == (state.epoch, state.next_sequence)
        machine.restart()
        assert committed_view(machine.log) == before
        assert machine.log.last_stable_offset(machine.log.end) == machine.log.end


def compact_once(machine: CompactingMachine, now_ms: int) -> None:
    """A round without the model, which knows nothing of transactions."""
    log = machine.log
    cleanable = log.plan_compaction(now_ms, log.end, machine.directory.clean_end(ORDERS))
    assert cleanable is not None
    for step in compact(machine.disk, log.compaction_job(cleanable, now_ms, 1000, last_batches(log))):
        if isinstance(step, Cleaned):
            assert machine.take_over(step, log.truncation_generation, now_ms)
        elif isinstance(step, Finished):
            machine.directory.remember(clean_ends={ORDERS: step.clean_end})
            machine.directory.write_checkpoints()


def test_markers_do_not_stay_for_ever() -> None:
    life = Life(1)
    machine = life.machine
    for kind in (ControlType.COMMIT, ControlType.ABORT):
        machine.put((b"k", b"v"), producer_id=20, transactional=True)
        end_transaction(machine, 20, kind)
    machine.log.producers.expire(NOW * 2, 1)
    for number in range(6):
        machine.put((b"k", b"%d" % number))
        machine.log.roll()
        machine.commit()
        compact_once(machine, NOW + 200 * number)
        machine.log.producers.expire(NOW * 2, 1)
    controls = [header for header in map(read_header, read_all(machine.log).values()) if header.is_control]
    assert controls == []
    assert machine.log.tombstone_horizon > 3
