"""Many lives of one log: what a node may do to it, in random order, ended by random crashes, checked at each start."""

from random import Random

import pytest

from hightide.errors import StorageError
from hightide.sim.disk import SimulatedCrash
from tests.storage.machine import Machine


class Life:
    """One process: takes random steps until the disk crashes under it or it stops cleanly."""

    def __init__(self, machine: Machine, rng: Random) -> None:
        self.machine = machine
        self.rng = rng
        self.history: list[str] = []

    def run(self) -> None:
        """Ends by a crash, a clean stop or a failed disk."""
        machine, rng = self.machine, self.rng
        machine.disk.crash_at(rng.randrange(1, 120), rng.choice([0.0, 0.3, 1.0]))
        if rng.random() < 0.15:
            machine.disk.fail(rng.choice(["sync", "write"]), "*.log", skip=rng.randrange(10))
        try:
            while self.step():
                pass
        except SimulatedCrash:
            self.history.append("crash")
        except StorageError:
            self.history.append("disk failed")
        machine.disk.crash_at(0)
        machine.disk.heal()

    def step(self) -> bool:
        """One random step; False after a clean stop."""
        choices = [self.append] * 8 + [self.commit] * 4 + [self.note] * 2
        choices += [self.checkpoint, self.truncate, self.delete, self.roll, self.begin, self.abort, self.lead]
        step = self.rng.choice([*choices, self.stop] if self.rng.random() < 0.3 else choices)
        self.history.append(step.__name__)
        step()
        return step != self.stop

    def append(self) -> None:
        self.machine.append(self.rng.randrange(1, 6))

    def commit(self) -> None:
        self.machine.commit()

    def note(self) -> None:
        self.machine.sync_record()

    def checkpoint(self) -> None:
        self.machine.checkpoint()

    def lead(self) -> None:
        self.machine.new_epoch()

    def roll(self) -> None:
        self.machine.log.roll()

    def truncate(self) -> None:
        log = self.machine.log
        boundaries = [base for base in self.machine.promises.written if base > log.start]
        if boundaries:
            self.machine.truncate(self.rng.choice(sorted(boundaries)))
            self.machine.new_epoch()
            self.machine.rewind()

    def delete(self) -> None:
        log = self.machine.log
        if log.synced_end > log.start:
            self.machine.delete_records(self.rng.randrange(log.start, log.synced_end) + 1)

    def begin(self) -> None:
        self.machine.append(producer_id=self.machine.value + 1000, transactional=True)

    def abort(self) -> None:
        for state in self.machine.log.producers.active:
            if state.transaction_start >= 0:
                self.machine.abort(state.producer_id)
                return

    def stop(self) -> None:
        self.machine.stop()


def live(seed: int, lives: int) -> None:
    rng = Random(seed)
    machine = Machine()
    machine.boot()
    history: list[str] = []
    for _ in range(lives):
        life = Life(machine, rng)
        life.run()
        history += life.history
        end_of_life = rng.choice(["kill", "power loss"])
        history.append(end_of_life)
        if end_of_life == "kill":
            machine.disk.kill()
        else:
            machine.disk.power_loss(rng)
        machine = machine.next_process()
        while rng.random() < 0.3:
            machine = interrupted(machine, rng)
            history.append("interrupted recovery")
        machine.boot()
        assert machine.violations() == [], f"seed {seed}: {history}"
        machine.rebase()


def interrupted(machine: Machine, rng: Random) -> Machine:
    """A recovery that dies, and the next process."""
    machine.disk.crash_at(rng.randrange(1, 40))
    try:
        machine.boot()
    except SimulatedCrash:
        pass
    if rng.random() < 0.5:
        machine.disk.power_loss(rng)
    else:
        machine.disk.kill()
    machine.disk.crash_at(0)
    return machine.next_process()


@pytest.mark.parametrize("seed", range(25))
def test_many_lives(seed: int) -> None:
    live(seed, lives=12)


@pytest.mark.long
@pytest.mark.parametrize("seed", range(1000, 1300))
def test_very_many_lives(seed: int) -> None:
    live(seed, lives=25)
