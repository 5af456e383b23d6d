"""Checkpoint files: the old or the new one after any crash, and never a guess."""

import pytest

from hightide.errors import CorruptionError
from hightide.rules import ALL_ON
from hightide.sim.disk import SimulatedCrash, SimulatedDisk
from hightide.storage.checkpoints import (
    OffsetCheckpoint,
    format_lines,
    make_directory_durably,
    parent_of,
    parse_lines,
    read_file,
    write_atomically,
)
from hightide.types import TopicPartition


def replaced(disk: SimulatedDisk, crash_at: int, *, atomic: bool = True) -> bool:
    """Write "old", then "new" with a crash at an operation; whether the second write got through."""
    rules = ALL_ON if atomic else ALL_ON.without("r18_atomic_checkpoints")
    write_atomically(disk, "file", b"old" * 500)
    disk.crash_at(crash_at)
    try:
        write_atomically(disk, "file", b"new" * 500, rules)
    except SimulatedCrash:
        return False
    return True


def damaged(atomic: bool) -> list[tuple[int, int]]:
    """The crashes and seeds after which the file is neither the old nor the new one."""
    found = []
    for crash_at in range(1, 8):
        for seed in range(20):
            disk = SimulatedDisk()
            whole = replaced(disk, crash_at, atomic=atomic)
            disk.power_loss(seed)
            content = read_file(disk, "file")
            if content not in ({b"new" * 500} if whole else {b"new" * 500, b"old" * 500}):
                found.append((crash_at, seed))
    return found


def test_a_file_is_the_old_or_the_new_one_after_any_power_loss() -> None:
    assert damaged(atomic=True) == []


def test_without_rule_18_a_power_loss_leaves_half_a_file() -> None:
    assert damaged(atomic=False)


def test_a_kill_at_any_operation_leaves_a_whole_file() -> None:
    for crash_at in range(1, 8):
        disk = SimulatedDisk()
        whole = replaced(disk, crash_at)
        disk.kill()
        assert read_file(disk, "file") in ({b"new" * 500} if whole else {b"new" * 500, b"old" * 500})


def test_a_left_over_temporary_file_does_no_harm() -> None:
    disk = SimulatedDisk()
    disk.open("file.tmp", create=True).write_at(b"x" * 5000, 0)
    write_atomically(disk, "file", b"new")
    assert disk.image() == {"file": b"new"}


def test_offsets_come_back() -> None:
    disk = SimulatedDisk()
    disk.make_directory("d")
    checkpoint = OffsetCheckpoint(disk, "d/offsets")
    with pytest.raises(FileNotFoundError):
        checkpoint.load()
    checkpoint.offsets.update({TopicPartition("b", 0): 2**62, TopicPartition("a-b.c_d", 11): 0})
    checkpoint.write()
    assert [line.split() for line in disk.image()["d/offsets"].decode().splitlines()] == [
        ["0"],
        ["2"],
        ["a-b.c_d", "11", "0"],
        ["b", "0", str(2**62)],
    ]
    again = OffsetCheckpoint(disk, "d/offsets")
    again.load()
    assert again.offsets == checkpoint.offsets
    assert again.names(TopicPartition("b", 0))
    del again.offsets[TopicPartition("b", 0)]
    assert again.names(TopicPartition("b", 0)), "the file still does"
    again.write()
    assert not again.names(TopicPartition("b", 0))
    before = disk.operations
    again.write()
    assert disk.operations == before, "nothing changed, nothing is written"


def test_no_entries_need_no_seal() -> None:
    assert format_lines([]) == b"0\n0\n"
    assert parse_lines(b"0\n0\n", "p") == []


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"0\n",
        b"0\n0",
        b"1\n0\n",
        b"0\n1\n",
        b"0\n1\na 0 5\n",
        b"0\n-1\n",
        b"\xff\xfe",
        format_lines(["a 0 5"])[:-1],
        format_lines(["a 0 5"]) + b"\n",
        format_lines(["a 0 5"]).replace(b"a 0 5", b"a 0 6"),
        format_lines(["a 0 5", "b 0 5"]).replace(b"\nb", b"b"),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(CorruptionError, match="some/path can't be read"):
        parse_lines(data, "some/path")


def test_well_sealed_nonsense_is_refused() -> None:
    disk = SimulatedDisk()
    write_atomically(disk, "offsets", format_lines(["a 0"]))
    with pytest.raises(CorruptionError, match="offsets can't be read"):
        OffsetCheckpoint(disk, "offsets").load()


@pytest.mark.parametrize(("path", "parent"), [("a/b/c", "a/b"), ("a", "."), ("/a", "/"), ("/a/b", "/a")])
def test_parents(path: str, parent: str) -> None:
    assert parent_of(path) == parent


def test_new_directories_last_with_all_their_parents() -> None:
    for seed in range(10):
        disk = SimulatedDisk()
        make_directory_durably(disk, "a/b/c")
        disk.power_loss(seed)
        assert disk.is_directory("a/b/c")
        before = disk.operations
        make_directory_durably(disk, "a/b/c")
        assert disk.operations == before
