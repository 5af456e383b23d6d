"""A crash at every file operation of a compaction, then recovery: the old records or the new ones, segment by segment.

Each rule of R20 that is about files has its story here: it holds with the rule and breaks without it.
"""

from collections.abc import Callable, Iterator

import pytest

from hightide.errors import CorruptionError
from hightide.rules import ALL_ON, Rules
from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.sim.images import LOST
from hightide.wire.compression import Codec
from tests.storage.compacting import CompactingMachine
from tests.storage.machine import NOW

Crash = Callable[[SimulatedDisk], None]
LATER = NOW + 5000


def power_loss(seed: int) -> Crash:
    return lambda disk: disk.power_loss(seed)


CRASHES: dict[str, Crash] = {
    "killed": SimulatedDisk.kill,
    "nothing unsynced is left": lambda disk: disk.power_loss(0, (LOST,)),
    "power loss": lambda disk: disk.power_loss(disk.operations),
}


def life(rules: Rules = ALL_ON) -> CompactingMachine:
    """A log with a compacted part, a dirty part, tombstones whose time has come, and an active segment."""
    machine = CompactingMachine(rules=rules)
    machine.boot()
    for number in range(3):
        machine.put(*[(b"key %d" % key, b"old %d" % number * 30) for key in range(6)], codec=Codec(number + 1))
        machine.put((b"gone", b"soon"), (b"kept", b"%d" % number))
    machine.put((b"gone", None))
    machine.log.roll()
    machine.commit()
    machine.compact()
    machine.checkpoint()
    machine.new_epoch()
    for number in range(6):
        machine.put(*[(b"key %d" % key, b"new %d" % number * 30) for key in range(number, 6)])
    machine.put((b"last", b"record"))
    machine.commit()
    machine.sync_record()
    return machine


def operations_of_a_round() -> int:
    machine = life()
    before = machine.disk.operations
    assert machine.compact(LATER) is not None
    assert machine.difference() is None
    assert machine.log.tombstone_horizon > 0, "a tombstone went"
    assert machine.log.segment_count > 2
    return machine.disk.operations - before


OPERATIONS = operations_of_a_round()


def crashed_at(operation: int, share: float = 0.0, rules: Rules = ALL_ON) -> CompactingMachine:
    machine = life(rules)
    machine.disk.crash_at(operation, share)
    with pytest.raises(SimulatedCrash):
        machine.compact(LATER)
    return machine


def recovered(machine: CompactingMachine, crash: Crash) -> CompactingMachine:
    crash(machine.disk)
    again = machine.next_process()
    again.boot()
    return again


@pytest.mark.parametrize("crash", CRASHES.values(), ids=CRASHES)
def test_at_every_operation(crash: Crash) -> None:
    for operation in range(1, OPERATIONS + 1):
        again = recovered(crashed_at(operation, 0.5), crash)
        assert again.difference() is None, f"operation {operation}: {again.difference()}"
        assert again.log.end == again.log.synced_end
        left = [path for path in again.disk.image() if path.endswith((".cleaned", ".swap", ".deleted"))]
        assert left == [], f"operation {operation}"


@pytest.mark.parametrize("operation", range(1, OPERATIONS + 1, 7))
def test_what_a_crash_interrupted_is_done_in_the_next_life(operation: int) -> None:
    again = recovered(crashed_at(operation), power_loss(operation))
    view = again.model.view()
    again.adopt_stored()
    for _ in range(2):
        again.put((b"more", b"records"))
        again.log.roll()
        again.commit()
        again.compact(LATER + 5000)
    assert again.difference() is None
    assert again.model.view() == view | {b"more": b"records"}
    assert len({record.key for record in again.model.records}) == len(again.model.records)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(10))
def test_at_every_operation_and_many_power_losses(seed: int) -> None:
    test_at_every_operation(power_loss(seed))


def test_a_crash_in_the_recovery_of_a_compaction() -> None:
    """I30: whatever operation of the recovery crashes, the next one ends at the same records."""
    for operation in range(OPERATIONS // 3, OPERATIONS + 1, 11):
        for step in range(1 + operation % 2, 40, 2):
            machine = crashed_at(operation)
            machine.disk.power_loss(operation)
            second = machine.next_process()
            machine.disk.crash_at(step)
            try:
                second.boot()
            except SimulatedCrash:
                third = recovered(second, power_loss(step))
                assert third.difference() is None, f"operation {operation}, then {step}: {third.difference()}"
            else:
                break


# ---------------------------------------------------------------------- the rules


def lives_after_crashes(rules: Rules) -> Iterator[str | None]:
    """How each recovered log differs from what is allowed, over all crash points."""
    for operation in range(1, OPERATIONS + 1):
        for crash in CRASHES.values():
            machine = life(rules)
            machine.disk.crash_at(operation)
            try:
                machine.compact(LATER)
            except SimulatedCrash:
                pass
            try:
                again = recovered(machine, crash)
                yield again.difference()
            except CorruptionError as error:
                yield str(error)


@pytest.mark.parametrize("rule", ["r20_sync_before_swap", "r20_swap_before_delete"])
def test_records_are_lost_without_the_rule(rule: str) -> None:
    assert any(difference is not None for difference in lives_after_crashes(ALL_ON.without(rule)))
