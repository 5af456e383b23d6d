"""The disk of a node in this process: full for it alone, and given back byte by byte."""

import errno
from pathlib import Path

import pytest

from hightide.testing.node_world import Disk, NodeFiles


def write(files: NodeFiles, path: Path, data: bytes, position: int = 0) -> None:
    file = files.open(str(path), create=True)
    try:
        file.write_at(data, position)
    finally:
        file.close()


def test_a_full_disk_lets_no_file_grow(tmp_path: Path) -> None:
    files = NodeFiles(Disk())
    write(files, tmp_path / "old", b"12345")
    assert files.free_bytes(str(tmp_path)) > 0
    files.disk.fill()
    assert files.free_bytes(str(tmp_path)) == 0
    assert files.capacity_bytes(str(tmp_path))[1] == 0
    write(files, tmp_path / "old", b"54321")  # in place
    with pytest.raises(OSError, match="space") as caught:
        write(files, tmp_path / "old", b"6", 5)
    assert caught.value.errno == errno.ENOSPC
    file = files.open(str(tmp_path / "new"), create=True)
    with pytest.raises(OSError, match="space"):
        file.allocate(1)
    file.close()
    files.disk.empty()
    write(files, tmp_path / "old", b"6", 5)
    assert (tmp_path / "old").read_bytes() == b"543216"


def test_what_is_removed_makes_room(tmp_path: Path) -> None:
    files = NodeFiles(Disk())
    for name in ("removed", "cut", "replaced", "new"):
        write(files, tmp_path / name, bytes(10))
    (tmp_path / "directory").mkdir()
    write(files, tmp_path / "directory" / "file", bytes(10))
    files.disk.fill()
    files.remove(str(tmp_path / "removed"))
    file = files.open(str(tmp_path / "cut"))
    file.truncate(4)
    file.close()
    files.rename(str(tmp_path / "new"), str(tmp_path / "replaced"))
    files.remove_directory(str(tmp_path / "directory"))
    assert files.free_bytes(str(tmp_path)) == 10 + 6 + 10 + 10
    write(files, tmp_path / "another", bytes(36))
    assert files.free_bytes(str(tmp_path)) == 0


def test_everything_open_is_closed_at_the_end(tmp_path: Path) -> None:
    files = NodeFiles(Disk())
    file = files.open(str(tmp_path / "file"), create=True)
    files.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write_at(b"x", 0)
    assert files.opened == set()
