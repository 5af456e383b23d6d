"""A write met a full disk and was undone: no later power loss may bring its bytes back into the log (R10, I29)."""

import errno

import pytest

from hightide.errors import DiskFullError
from tests.storage.machine import NOW, Machine


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("ending", ["roll", "stop", "go on"])
def test_what_was_cut_back_stays_cut(seed: int, ending: str) -> None:
    """Found by `hightide sim --seed 36`: a segment that ended with a cut was sealed and never synced again."""
    machine = Machine()
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.disk.fail("write", "*.log", code=errno.ENOSPC, keep=50)
    with pytest.raises(DiskFullError):
        machine.log.append_as_leader(memoryview(bytearray(machine.batch(2))), machine.epoch, NOW)
    if ending == "stop":
        machine.stop()
    else:
        if ending == "roll":
            machine.log.roll()
        machine.append(1)
        machine.commit()
        machine.sync_record()
    machine.disk.power_loss(seed)
    again = machine.next_process()
    again.boot()
    assert again.violations() == []
