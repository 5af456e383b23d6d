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
    """A round. `crash`: the file operation in which the process dies, 0 for none, maybe with the machine's `power`.

    `cut_at`: the step after which the log is cut, 0 for none, to this share of it.
    """

    later_ms: int
    keys_max: int
    crash: int
    power: bool
    cut_at: int
    share: float


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
    Compact,
    st.integers(0, 1500),
    st.sampled_from([1, 3, 1000]),
    st.sampled_from([*[0] * 40, *range(1, 80)]),
    st.booleans(),
    st.sampled_from([*[0] * 10, *range(1, 15)]),
    st.floats(0, 1),
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
            case Compact():
                now_ms += step.later_ms
                machine.commit()
                machine.sync_record()
                machine = round_of(machine, now_ms, step, seed)
    machine.commit()
    machine.restart()
    assert machine.difference() is None


def round_of(machine: CompactingMachine, now_ms: int, step: Compact, seed: int) -> CompactingMachine:
    """One round; the process that goes on after it."""
    view, end = machine.model.view(), machine.log.end
    steps = 0

    def cut(_what: str) -> None:
        nonlocal steps
        steps += 1
        if steps == step.cut_at:
            machine.cut(int(end * step.share))

    machine.during = cut
    if step.crash:
        machine.disk.crash_at(step.crash)
    try:
        machine.compact(now_ms, step.keys_max)
        machine.disk.crash_at(0)
    except SimulatedCrash:
        if step.power:
            machine.disk.power_loss(seed)
        else:
            machine.disk.kill()
        was_cut = machine.log.end < end or steps >= step.cut_at > 0
        machine = machine.next_process()
        machine.boot()
        if was_cut:  # half a truncation may be back; whatever it is, it is whole
            machine.adopt_stored()
            return machine
    machine.during = lambda _: None
    assert machine.difference() is None, machine.difference()
    if machine.after is not None:
        machine.adopt_stored()
    if not steps >= step.cut_at > 0:
        assert machine.model.view() == view
    return machine
