"""Compaction against a model in plain Python: any records in any batches, any number of rounds, any crash.

The model (tests/storage/compacting.py) knows keys, values and times. After every round the log holds exactly what the
model holds; after a crash, the old records from some offset on and the new ones below it.
"""

from typing import NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.sim.disk import SimulatedCrash
from hightide.wire.compression import Codec
from tests.storage.compacting import COMPACTED, CompactingMachine
from tests.storage.machine import NOW

KEYS = st.sampled_from([b"", b"a", b"b", b"c", b"a key of fifteen"[:15], b"a key longer than its digest", b"x" * 40])
VALUES = st.one_of(st.none(), st.binary(max_size=40), st.just(b"v" * 60))
HEADERS = st.lists(st.tuples(st.sampled_from(["h", "é"]), st.one_of(st.none(), st.binary(max_size=3))), max_size=2)


class Put(NamedTuple):
    pairs: list[tuple[bytes, bytes | None]]
    codec: Codec
    headers: list[tuple[str, bytes | None]]
    age_ms: int
    producer_id: int


class Compact(NamedTuple):
    """A round; `crash` is the file operation in which the process dies, 0 for none; `power` of the machine too."""

    later_ms: int
    keys_max: int
    crash: int
    power: bool


class Roll(NamedTuple):
    pass


class NewEpoch(NamedTuple):
    pass


PUTS = st.builds(
    Put,
    st.lists(st.tuples(KEYS, VALUES), min_size=1, max_size=5),
    st.sampled_from(Codec),
    HEADERS,
    st.integers(0, 5000),
    st.sampled_from([-1, 7, 8]),
)
ROUNDS = st.builds(
    Compact, st.integers(0, 1500), st.sampled_from([1, 3, 1000]), st.sampled_from([0, 0, *range(1, 80)]), st.booleans()
)
LIVES = st.lists(st.one_of(PUTS, PUTS, PUTS, PUTS, st.just(Roll()), ROUNDS, st.just(NewEpoch())), max_size=40)


@settings(max_examples=120, deadline=None)
@given(LIVES, st.integers(0, 1000))
def test_what_survives_is_what_the_model_says(life: list[object], seed: int) -> None:
    machine = CompactingMachine(settings=COMPACTED._replace(segment_bytes=900))
    machine.boot()
    now_ms = NOW
    for step in life:
        match step:
            case Put(pairs, codec, headers, age_ms, producer_id):
                machine.put(*pairs, codec=codec, headers=headers, timestamp=now_ms - age_ms, producer_id=producer_id)
            case Roll():
                machine.log.roll()
            case NewEpoch():
                machine.new_epoch()
            case Compact(later_ms, keys_max, crash, power):
                now_ms += later_ms
                machine.commit()
                machine.sync_record()
                machine = round_of(machine, now_ms, keys_max, crash, seed if power else None)
    machine.commit()
    machine.restart()
    assert machine.difference() is None


def round_of(
    machine: CompactingMachine, now_ms: int, keys_max: int, crash: int, power: int | None
) -> CompactingMachine:
    """One round; the process that goes on after it."""
    view = machine.model.view()
    if crash:
        machine.disk.crash_at(crash)
    try:
        machine.compact(now_ms, keys_max)
        machine.disk.crash_at(0)
    except SimulatedCrash:
        if power is None:
            machine.disk.kill()
        else:
            machine.disk.power_loss(power)
        machine = machine.next_process()
        machine.boot()
        assert machine.difference() is None, machine.difference()
        machine.adopt_stored()
    assert machine.difference() is None, machine.difference()
    assert machine.model.view() == view
    return machine
