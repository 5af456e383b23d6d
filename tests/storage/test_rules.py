"""Each rule of the disk earns its place: a story that holds with it, and breaks a named invariant without it."""

import errno
from collections.abc import Callable

import pytest

from hightide.errors import CorruptionError, DiskFullError, StorageError
from hightide.rules import ALL_ON, Rules
from hightide.sim.images import LOST
from hightide.storage.partition_directories import PARTITION_METADATA_FILE
from hightide.storage.space import Condition
from tests.storage.machine import DATA, NOW, ORDERS_ID, Machine, read_all

Story = Callable[[Machine], list[str]]


def reopened(machine: Machine) -> Machine:
    """The next process, on what the crash left."""
    again = machine.next_process()
    again.boot()
    return again


def after_power_loss(machine: Machine) -> list[str]:
    """What is broken after everything unsynced is gone."""
    machine.disk.power_loss(0, (LOST,))
    try:
        return reopened(machine).violations()
    except CorruptionError as error:
        return [f"I29: what was synced is missed at the next start: {error}"]


# R10


def a_sync_fails_and_the_next_one_lies(machine: Machine) -> list[str]:
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.disk.fail("sync", "*.log")
    machine.append(2)
    assert not machine.commit()
    if machine.directory.space.accepts_records:
        machine.append(1)
        machine.commit()
    else:
        with pytest.raises(StorageError):
            machine.append(1)
        assert machine.directory.space.condition is Condition.OFFLINE
    return after_power_loss(machine)


# R17


def a_synced_batch_turns_bad(machine: Machine) -> list[str]:
    machine.boot()
    for _ in range(3):
        machine.append(2)
    machine.commit()
    machine.sync_record()
    machine.disk.kill()
    path = f"{DATA}/orders-0/{0:020d}.log"
    machine.disk.flip(path, 300)
    before = machine.disk.image()[path]
    try:
        again = reopened(machine)
    except CorruptionError:
        assert machine.disk.image()[path] == before, "reported, and nothing cut"
        return []
    return again.violations()


# R18


def power_fails_while_a_checkpoint_is_written(machine: Machine) -> list[str]:
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.checkpoint()
    machine.append(2)
    machine.commit()
    machine.checkpoint()
    machine.disk.power_loss(0, (LOST,))
    try:
        return reopened(machine).violations()
    except CorruptionError as error:
        return [f"I30: the next start refuses: {error}"]


# R19


def a_sync_fails_and_the_process_restarts(machine: Machine) -> list[str]:
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.append(2)
    machine.disk.fail("sync", "*.log")
    machine.commit()
    machine.disk.kill()
    again = reopened(machine)
    # What recovery found counts as synced from now on: the new process may have told others.
    again.promises.synced_end = again.log.synced_end
    return after_power_loss(again)


def a_truncation_overtakes_a_sync(machine: Machine) -> list[str]:
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.append(2)
    machine.append(2)
    plan = machine.log.unsynced_files()
    for file in plan.files:
        file.sync()
    machine.truncate(4)
    machine.new_epoch()
    machine.sequence = 4
    machine.append(2)
    machine.committed(plan)
    return after_power_loss(machine)


def a_new_segment_is_not_in_its_directory(machine: Machine) -> list[str]:
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.log.roll()
    machine.append(2)
    assert machine.commit()
    return after_power_loss(machine)


# R22


def a_topic_is_created_again_under_the_same_name(machine: Machine) -> list[str]:
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.disk.kill()
    machine.epoch = 0
    machine.boot(topic_id=bytes(range(100, 116)))
    strays = machine.directory.partitions.strays()
    found = [f"I6: a record of the old topic at {base} of the new one" for base in read_all(machine.log)]
    if not found:
        assert len(strays) == 1, "the old records are set aside, not deleted"
    return found


# R11


def a_full_disk_refuses_a_batch_that_is_sent_again(machine: Machine) -> list[str]:
    machine.boot()
    machine.append(2)
    machine.disk.fail("write", "*.log", code=errno.ENOSPC, keep=50)
    batch = machine.batch(2)
    with pytest.raises(DiskFullError):
        machine.log.append_as_leader(memoryview(bytearray(batch)), machine.epoch, NOW)
    retried = machine.log.append_as_leader(memoryview(batch), machine.epoch, NOW)
    if retried.duplicate:
        return [f"K4: acknowledged at {retried.base_offset}, the log ends at {machine.log.end}"]
    machine.promises.appended(retried.base_offset, bytes(batch))
    machine.commit()
    return after_power_loss(machine)


STORIES: list[tuple[str, Story, str]] = [
    ("r10_offline_on_failed_sync", a_sync_fails_and_the_next_one_lies, "I29"),
    ("r11_producer_state_after_append", a_full_disk_refuses_a_batch_that_is_sent_again, "K4"),
    ("r17_quarantine_synced_corruption", a_synced_batch_turns_bad, "I29"),
    ("r18_atomic_checkpoints", power_fails_while_a_checkpoint_is_written, "I30"),
    ("r19_rewrite_unsynced_tail", a_sync_fails_and_the_process_restarts, "I29"),
    ("r19_void_sync_after_truncation", a_truncation_overtakes_a_sync, "I29"),
    ("r19_sync_directory_entries", a_new_segment_is_not_in_its_directory, "I29"),
    ("r22_topic_id_before_first_byte", a_topic_is_created_again_under_the_same_name, "I6"),
]


@pytest.mark.parametrize(("rule", "story", "invariant"), STORIES)
def test_the_story_holds_with_the_rule(rule: str, story: Story, invariant: str) -> None:
    assert story(Machine(rules=ALL_ON)) == []


@pytest.mark.parametrize(("rule", "story", "invariant"), STORIES)
def test_the_story_breaks_without_the_rule(rule: str, story: Story, invariant: str) -> None:
    rules: Rules = ALL_ON.without(rule)
    found = story(Machine(rules=rules))
    assert any(entry.startswith(invariant) for entry in found), f"{rule} off, and nobody noticed: {found}"


# R10 and R22 in full.


def test_a_full_disk_is_cut_back_and_goes_on_when_there_is_room() -> None:
    machine = Machine()
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.disk.capacity = machine.disk.used_bytes() + 70
    with pytest.raises(DiskFullError):
        machine.append(3)
    assert machine.log.failure is None
    assert machine.log.end == 2
    stored = read_all(machine.log)
    assert list(stored) == [0], "fetch goes on"
    machine.disk.capacity = None
    machine.sequence = 2
    machine.append(3)
    machine.commit()
    assert after_power_loss(machine) == []


def test_when_a_full_disk_can_not_be_cut_back_the_log_is_closed_for_writing() -> None:
    machine = Machine()
    machine.boot()
    machine.append(2)
    machine.commit()
    machine.disk.fail("write", "*.log", code=errno.ENOSPC, keep=50)
    machine.disk.fail("truncate", "*.log")
    with pytest.raises(StorageError):
        machine.append(1)
    assert machine.log.failure is not None
    with pytest.raises(StorageError):
        machine.append(1)
    assert list(read_all(machine.log)) == [0]
    machine.disk.heal()
    machine.disk.kill()
    assert reopened(machine).violations() == []


def test_a_failed_write_closes_the_log_for_writing() -> None:
    machine = Machine()
    machine.boot()
    machine.append(2)
    machine.disk.fail("write", "*.log", code=errno.EIO, keep=50)
    with pytest.raises(StorageError):
        machine.append(1)
    with pytest.raises(StorageError):
        machine.append(1)
    machine.disk.kill()
    assert reopened(machine).violations() == []


def test_a_power_loss_while_the_topic_id_is_stored_leaves_nothing_that_could_be_mistaken() -> None:
    for seed in range(30):
        machine = Machine()
        machine.boot()
        machine.disk.power_loss(seed)
        again = reopened(machine)
        (entry,) = again.directory.partitions.list()
        assert entry.topic_id == ORDERS_ID
        assert PARTITION_METADATA_FILE in again.disk.list(f"{DATA}/orders-0")


# The same where several clients' batches are written at once.


def producers_known(machine: Machine) -> list[int]:
    return sorted(state.producer_id for state in machine.log.producers.active)


def test_batches_that_do_not_fit_together_are_looked_at_one_by_one() -> None:
    """R10: nothing of a write that failed is there, and what fits alone may follow."""
    machine = Machine()
    machine.boot()
    machine.append(2)
    machine.commit()
    batches = [bytes(machine.batch(producer_id=number)) for number in (8, 9, 10)]
    machine.disk.capacity = machine.disk.used_bytes() + len(batches[0]) + 10
    before = machine.disk.image()
    assert machine.log.append_run(list(batches), 0, machine.epoch, NOW) == []
    assert machine.disk.image() == before
    assert machine.log.failure is None
    assert (machine.log.end, producers_known(machine)) == (2, [7])
    assert machine.log.append_as_leader(batches[0], machine.epoch, NOW).base_offset == 2
    with pytest.raises(DiskFullError):
        machine.log.append_as_leader(batches[1], machine.epoch, NOW)
    assert (machine.log.end, producers_known(machine)) == (3, [7, 8])


def test_a_failed_write_of_several_batches_closes_the_log_and_nobody_learns_of_them() -> None:
    """R10 and R11: their producers may send them again, to another leader or another life of this one."""
    machine = Machine()
    machine.boot()
    machine.append(2)
    batches = [bytes(machine.batch(producer_id=number)) for number in (8, 9, 10)]
    machine.disk.fail("write", "*.log", code=errno.EIO, keep=50)
    assert machine.log.append_run(list(batches), 0, machine.epoch, NOW) == []
    assert machine.log.failure is not None
    assert (machine.log.end, producers_known(machine)) == (2, [7])
    assert machine.log.append_run(list(batches), 0, machine.epoch, NOW) == [], "it stays closed"
    with pytest.raises(StorageError):
        machine.log.append_as_leader(batches[0], machine.epoch, NOW)
    machine.disk.kill()
    assert reopened(machine).violations() == []


def test_a_leader_that_another_one_followed_appends_nothing_together() -> None:
    machine = Machine()
    machine.boot()
    machine.append(2)
    machine.new_epoch()
    batches = [bytes(machine.batch(producer_id=number)) for number in (8, 9)]
    assert machine.log.append_run(list(batches), 0, machine.epoch - 1, NOW) == []
    assert machine.log.end == 2
    assert len(machine.log.append_run(list(batches), 0, machine.epoch, NOW)) == 2
