"""Compaction on a simulated disk: what survives is what a plain model says, whatever the codec, batch or moment."""

import pytest

from hightide.wire.compression import Codec
from hightide.wire.records import read_header
from tests.storage.compacting import CompactingMachine, stored_records
from tests.storage.machine import read_all


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
