"""The faulty disk: what survives a kill, what survives a power loss, and that its faults do what they say."""

import errno
from random import Random

import pytest

from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.sim.images import KEPT, LOST, OUTCOMES, TORN
from hightide.storage.files import File


def written(disk: SimulatedDisk, path: str, *, synced: bytes = b"", unsynced: bytes = b"") -> File:
    """A file whose name lasts, with a synced beginning and an unsynced rest."""
    file = disk.open(path, create=True)
    disk.sync_directory("")
    file.write_at(synced, 0)
    file.sync()
    if unsynced:
        file.write_at(unsynced, len(synced))
    return file


def test_a_process_reads_what_it_wrote() -> None:
    disk = SimulatedDisk()
    disk.make_directory("a/b")
    file = disk.open("a/b/log", create=True)
    assert file.write_at(b"hello", 0) == 5
    file.write_at(memoryview(b"J"), 0)
    file.write_at(b"!", 7)
    assert file.read_at(0, 100) == b"Jello\0\0!"
    assert file.size() == 8
    file.truncate(4)
    assert file.read_at(2, 100) == b"ll"
    assert disk.list("a") == ["b"]
    assert disk.image() == {"a/b/log": b"Jell"}


def test_a_kill_keeps_what_was_written_and_closes_what_was_open() -> None:
    disk = SimulatedDisk()
    file = written(disk, "log", synced=b"synced", unsynced=b"unsynced")
    boot = disk.boot_id()
    disk.kill()
    assert disk.image() == {"log": b"syncedunsynced"}
    assert disk.boot_id() == boot
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.read_at(0, 1)


def test_a_power_loss_keeps_what_was_synced_and_changes_the_boot_id() -> None:
    disk = SimulatedDisk()
    written(disk, "log", synced=b"synced", unsynced=b"unsynced")
    boot = disk.boot_id()
    disk.power_loss(1, (LOST,))
    assert disk.image() == {"log": b"synced"}
    assert disk.boot_id() != boot


def test_what_a_kill_kept_a_later_power_loss_still_takes() -> None:
    disk = SimulatedDisk()
    written(disk, "log", synced=b"synced", unsynced=b"unsynced")
    disk.kill()
    disk.power_loss(1, (LOST,))
    assert disk.image() == {"log": b"synced"}


@pytest.mark.parametrize("outcome", [KEPT, TORN])
def test_unsynced_writes_may_stay_or_tear(outcome: str) -> None:
    images = set()
    for seed in range(50):
        disk = SimulatedDisk()
        written(disk, "log", synced=b"s" * 700, unsynced=b"u" * 2000)
        disk.power_loss(seed, (outcome,))
        images.add(disk.image()["log"])
    assert all(image[:700] == b"s" * 700 for image in images)
    if outcome == KEPT:
        assert images == {b"s" * 700 + b"u" * 2000}
    else:
        assert len(images) > 10
        assert any(b"\0" * 300 + b"u" in image for image in images), "sectors are written in any order"
        assert b"s" * 700 + bytes(2000) in images, "the length may arrive without the bytes"


def test_an_unsynced_truncation_may_be_lost() -> None:
    sizes = set()
    for seed in range(20):
        disk = SimulatedDisk()
        written(disk, "log", synced=b"0123456789").truncate(4)
        disk.power_loss(seed)
        sizes.add(len(disk.image()["log"]))
    assert sizes == {4, 10}


def test_names_last_only_after_their_directory_was_synced() -> None:
    disk = SimulatedDisk()
    disk.make_directory("d")
    disk.sync_directory("")
    for name in ("old", "gone"):
        disk.open(f"d/{name}", create=True).write_at(name.encode(), 0)
        disk.open(f"d/{name}").sync()
    disk.sync_directory("d")
    disk.rename("d/old", "d/new")
    disk.remove("d/gone")
    disk.open("d/fresh", create=True).sync()
    assert sorted(disk.image()) == ["d/fresh", "d/new"]
    unsynced, synced = disk.copy(), disk.copy()
    unsynced.power_loss(1, (LOST,))
    assert unsynced.image() == {"d/old": b"old", "d/gone": b"gone"}
    synced.sync_directory("d")
    synced.power_loss(1, (LOST,))
    assert synced.image() == {"d/new": b"old", "d/fresh": b""}


def test_a_rename_that_lasts_does_not_make_the_bytes_last() -> None:
    disk = SimulatedDisk()
    disk.open("new.tmp", create=True).write_at(b"never synced", 0)
    disk.rename("new.tmp", "new")
    disk.sync_directory("")
    disk.power_loss(1, (LOST,))
    assert disk.image() == {"new": b""}


def test_a_rename_within_a_directory_is_never_half() -> None:
    for seed in range(40):
        disk = SimulatedDisk()
        written(disk, "file", synced=b"old")
        disk.sync_directory("")
        other = written(disk, "file.tmp", synced=b"new")
        other.close()
        disk.rename("file.tmp", "file")
        disk.power_loss(seed)
        assert disk.image() in ({"file": b"old", "file.tmp": b"new"}, {"file": b"new"})


def test_a_directory_moves_with_what_is_in_it() -> None:
    disk = SimulatedDisk()
    disk.make_directory("t-0")
    disk.open("t-0/log", create=True).write_at(b"x", 0)
    disk.rename("t-0", "t-0.gone-delete")
    assert disk.image() == {"t-0.gone-delete/log": b"x"}
    disk.remove_directory("t-0.gone-delete")
    assert disk.list("") == []


def test_a_removed_file_stays_readable_while_open() -> None:
    disk = SimulatedDisk()
    file = written(disk, "log", synced=b"bytes")
    disk.remove("log")
    assert not disk.exists("log")
    assert file.read_at(0, 5) == b"bytes"


def test_a_failed_sync_makes_the_next_one_lie() -> None:
    disk = SimulatedDisk()
    file = written(disk, "log", synced=b"1", unsynced=b"2")
    disk.fail("sync", "log")
    with pytest.raises(OSError, match="Input/output error"):
        file.sync()
    file.sync()
    assert file.read_at(0, 2) == b"12", "the pages are still there"
    rewritten = disk.copy()
    disk.power_loss(1, (KEPT,))
    assert disk.image() == {"log": b"1"}
    again = rewritten.open("log")
    again.write_at(b"2", 1)
    again.sync()
    rewritten.power_loss(1, (LOST,))
    assert rewritten.image() == {"log": b"12"}, "only writing the bytes again helps"


def test_a_full_disk_takes_what_fits_and_says_so() -> None:
    disk = SimulatedDisk(capacity=10)
    file = disk.open("log", create=True)
    file.write_at(b"12345678", 0)
    assert disk.free_bytes("") == 2
    assert disk.capacity_bytes("") == (10, 2)
    with pytest.raises(OSError, match="No space left") as caught:
        file.write_at(b"abcd", 8)
    assert caught.value.errno == errno.ENOSPC
    assert file.read_at(0, 100) == b"12345678ab"
    file.write_at(b"over", 0)
    file.truncate(4)
    file.write_at(b"abcd", 4)
    assert disk.free_bytes("") == 2


def test_allocated_bytes_are_taken_at_once() -> None:
    disk = SimulatedDisk(capacity=100)
    reserve = disk.open("reserve", create=True)
    reserve.allocate(90)
    with pytest.raises(OSError, match="No space left"):
        disk.open("log", create=True).write_at(bytes(20), 0)
    with pytest.raises(OSError, match="No space left"):
        reserve.allocate(200)
    reserve.write_at(bytes(90), 0)
    reserve.truncate(0)
    assert disk.free_bytes("") == 90


def test_chosen_operations_fail_as_told() -> None:
    disk = SimulatedDisk()
    disk.make_directory("d")
    log, other = disk.open("d/1.log", create=True), disk.open("d/1.index", create=True)
    disk.fail("write", "*.log", code=errno.EIO, skip=1, keep=2)
    log.write_at(b"fine", 0)
    other.write_at(b"fine", 0)
    with pytest.raises(OSError, match="Input/output error"):
        log.write_at(b"short", 4)
    assert log.read_at(0, 100) == b"finesh"
    disk.fail("read", times=-1)
    for _ in range(2):
        with pytest.raises(OSError, match="Input/output error"):
            other.read_at(0, 1)
    disk.heal()
    assert other.read_at(0, 4) == b"fine"
    for operation, call in (
        ("rename", lambda: disk.rename("d/1.log", "d/2.log")),
        ("remove", lambda: disk.remove("d/1.log")),
        ("create", lambda: disk.open("d/3.log", create=True)),
        ("truncate", lambda: log.truncate(0)),
        ("sync_directory", lambda: disk.sync_directory("d")),
    ):
        disk.fail(operation)
        with pytest.raises(OSError, match="Input/output error"):
            call()
    assert disk.image() == {"d/1.log": b"finesh", "d/1.index": b"fine"}


def test_bits_flip_and_files_vanish() -> None:
    disk = SimulatedDisk()
    written(disk, "a", synced=b"\x00\x00")
    written(disk, "b", synced=b"b")
    disk.flip("a", 1, 0x80)
    disk.lose("b")
    disk.power_loss(0)
    assert disk.image() == {"a": b"\x00\x80"}
    disk.overwrite("a", b"zz")
    assert disk.image() == {"a": b"zz"}


def test_a_crash_at_an_operation_stops_everything() -> None:
    disk = SimulatedDisk()
    disk.trace = []
    file = disk.open("log", create=True)
    disk.crash_at(2)
    file.write_at(b"12", 0)
    with pytest.raises(SimulatedCrash):
        file.sync()
    with pytest.raises(SimulatedCrash):
        file.read_at(0, 1)
    with pytest.raises(SimulatedCrash):
        disk.list("")
    file.close()
    assert disk.trace == [("create", "log"), ("write", "log"), ("sync", "log")]
    disk.kill()
    assert disk.image() == {"log": b"12"}


def test_a_write_may_be_cut_by_the_crash() -> None:
    disk = SimulatedDisk()
    file = disk.open("log", create=True)
    disk.crash_at(1, share=0.5)
    with pytest.raises(SimulatedCrash):
        file.write_at(b"12345678", 0)
    with pytest.raises(SimulatedCrash):
        file.write_at(b"later", 0)
    disk.kill()
    assert disk.image() == {"log": b"1234"}


def test_a_slow_sync_is_told() -> None:
    disk = SimulatedDisk()
    slow: list[str] = []
    disk.on_sync = slow.append
    disk.open("log", create=True).sync()
    disk.sync_directory("")
    assert slow == ["log", ""]


def test_the_same_seed_gives_the_same_disk() -> None:
    def run(seed: int) -> dict[str, bytes]:
        rng = Random(seed)
        disk = SimulatedDisk()
        for number in range(30):
            file = disk.open(f"f{rng.randrange(5)}", create=True)
            file.write_at(rng.randbytes(rng.randrange(1, 3000)), rng.randrange(2000))
            if number % 7 == 0:
                file.sync()
                disk.sync_directory("")
        disk.power_loss(rng, OUTCOMES)
        return disk.image()

    assert run(5) == run(5)
    assert len({str(run(seed)) for seed in range(5)}) == 5
