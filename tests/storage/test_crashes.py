"""A crash at every file operation of a run, then recovery: nothing synced is lost (I29), again gives the same (I30)."""

from collections.abc import Callable, Iterator

import pytest

from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.sim.images import LOST
from tests.storage.machine import Machine

Crash = Callable[[SimulatedDisk], None]


def run(machine: Machine) -> None:
    """Everything a log does in its life, in three processes."""
    machine.boot()
    for _ in range(3):
        machine.append(2)
    machine.commit()
    machine.sync_record()
    for _ in range(4):
        machine.append(2)
        machine.commit()
    machine.checkpoint()
    machine.append(producer_id=8, transactional=True)
    machine.append(producer_id=9, transactional=True)
    machine.append(3)
    machine.abort(8)
    machine.new_epoch()
    machine.append(2)
    machine.commit()
    machine.sync_record()
    machine.log.roll()
    for _ in range(3):
        machine.append(1)
    cut = sorted(machine.promises.written)[-2]
    machine.truncate(cut)
    machine.rewind()
    machine.new_epoch()
    machine.append(2)
    machine.append(1)
    machine.commit()
    cut = sorted(machine.promises.written)[-5]
    machine.truncate(cut)
    machine.rewind()
    machine.append(4)
    machine.commit()
    machine.sync_record()
    machine.delete_records(sorted(machine.promises.written)[4] + 1)
    machine.append(2)
    machine.commit()
    machine.stop()

    machine.restart()
    machine.append(3)
    machine.append(3)
    machine.commit()
    machine.delete_records(machine.log.end - 3)
    machine.checkpoint()
    machine.append(1)

    machine.restart()
    machine.append(5)
    machine.append(5)
    machine.commit()
    machine.sync_record()
    machine.append(5)


def operations_of_a_run() -> int:
    machine = Machine()
    run(machine)
    assert machine.log.end > machine.log.synced_end, "the run ends with unsynced bytes"
    return machine.disk.operations


OPERATIONS = operations_of_a_run()


def crashed_at(operation: int, share: float = 0.0) -> Machine:
    machine = Machine()
    machine.disk.trace = []
    machine.disk.crash_at(operation, share)
    try:
        run(machine)
    except SimulatedCrash:
        return machine
    raise AssertionError(f"the run has no operation {operation}")


def power_loss(seed: int) -> Crash:
    return lambda disk: disk.power_loss(seed)


def lose_everything_unsynced(disk: SimulatedDisk) -> None:
    disk.power_loss(0, (LOST,))


def kill(disk: SimulatedDisk) -> None:
    disk.kill()


def where(machine: Machine, operation: int) -> str:
    trace = machine.disk.trace or []
    return f"after a crash at operation {operation}, {trace[operation - 1 : operation]}"


def last_steps(machine: Machine) -> list[tuple[str, str]]:
    return (machine.disk.trace or [])[-8:]


def partition_files(disk: SimulatedDisk) -> dict[str, bytes]:
    return {path: data for path, data in disk.image().items() if "/orders-0/" in path}


def recovered(machine: Machine) -> Machine:
    """Another process on the same disk, with the same promises."""
    again = machine.next_process()
    again.boot()
    return again


def survive(machine: Machine, crash: Crash, operation: int) -> None:
    steps = last_steps(machine)
    machine.disk.trace = None
    crash(machine.disk)
    once = recovered(machine)
    assert once.violations() == [], f"crash at operation {operation}, after {steps}"
    # After a clean stop nothing is scanned, so only the second start rebuilds what is derived.
    compared = logs_of if once.directory.clean else dict
    first = compared(partition_files(machine.disk))
    machine.disk.kill()
    twice = recovered(machine)
    assert twice.violations() == [], f"second recovery after a crash at operation {operation}, after {steps}"
    second = compared(partition_files(machine.disk))
    assert second == first, f"recovery again differs, crash at {operation}, after {steps}"
    machine.disk.power_loss(0, (LOST,))
    third = recovered(machine)
    assert third.log.end == once.log.end, f"what recovery counted was not synced, crash at {operation}, after {steps}"


@pytest.mark.parametrize(
    ("crash", "share"),
    [
        pytest.param(kill, 0.0, id="kill"),
        pytest.param(kill, 0.5, id="kill within a write"),
        pytest.param(lose_everything_unsynced, 0.0, id="power loss, nothing unsynced stays"),
        *(pytest.param(power_loss(seed), 1.0, id=f"power loss {seed}") for seed in range(3)),
    ],
)
def test_a_crash_at_every_operation(crash: Crash, share: float) -> None:
    for operation in range(1, OPERATIONS + 1):
        survive(crashed_at(operation, share), crash, operation)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(3, 15))
def test_a_power_loss_at_every_operation_with_many_seeds(seed: int) -> None:
    for operation in range(1, OPERATIONS + 1):
        survive(crashed_at(operation, 1.0), power_loss(seed * 1000 + operation), operation)


def crashes_in_recovery(disk: SimulatedDisk, machine: Machine) -> Iterator[SimulatedDisk]:
    """Copies of a crashed disk on which the recovery crashed at each of its operations."""
    operation = 0
    while True:
        operation += 1
        twin = disk.copy()
        twin.crash_at(operation)
        attempt = Machine(twin, machine.rules, machine.settings)
        try:
            attempt.boot()
        except SimulatedCrash:
            yield twin
        else:
            return


def survive_crashing_recoveries(machine: Machine, crash: Crash, seed: int) -> None:
    crash(machine.disk)
    machine.disk.trace = None
    undisturbed = Machine(machine.disk.copy(), machine.rules, machine.settings)
    undisturbed.boot()
    expected = partition_files(undisturbed.disk)
    for twin in crashes_in_recovery(machine.disk, machine):
        killed = Machine(twin.copy(), machine.rules, machine.settings)
        killed.promises = machine.promises
        killed.boot()
        assert killed.violations() == []
        assert logs_of(partition_files(killed.disk)) == logs_of(expected), "a killed recovery is finished by the next"
        twin.power_loss(seed)
        lost = Machine(twin, machine.rules, machine.settings)
        lost.promises = machine.promises
        lost.boot()
        assert lost.violations() == []


def logs_of(files: dict[str, bytes]) -> dict[str, bytes]:
    return {path: data for path, data in files.items() if path.endswith((".log", "leader-epoch-checkpoint"))}


@pytest.mark.parametrize("operation", range(5, OPERATIONS, 23))
def test_a_crash_at_every_operation_of_a_recovery(operation: int) -> None:
    for crash in (kill, power_loss(operation)):
        survive_crashing_recoveries(crashed_at(operation, 0.5), crash, operation)


@pytest.mark.long
@pytest.mark.parametrize("operation", range(1, OPERATIONS + 1))
def test_a_crash_at_every_operation_of_every_recovery(operation: int) -> None:
    for seed in range(2):
        survive_crashing_recoveries(crashed_at(operation, 0.5), power_loss(seed), seed)
    survive_crashing_recoveries(crashed_at(operation, 0.5), kill, operation)
