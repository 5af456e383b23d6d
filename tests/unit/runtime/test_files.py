"""The operating system's files: the same contract that the simulated disk keeps."""

import errno
import os
from pathlib import Path

import pytest

from hightide.runtime.files import OsFiles
from hightide.wire.records import Buffer


@pytest.fixture
def files() -> OsFiles:
    return OsFiles()


def test_reads_and_writes_at_positions(files: OsFiles, tmp_path: Path) -> None:
    path = f"{tmp_path}/log"
    with pytest.raises(FileNotFoundError):
        files.open(path)
    file = files.open(path, create=True)
    assert file.path == path
    assert file.write_at(b"hello", 0) == 5
    assert file.write_at(memoryview(b"-J-")[1:2], 0) == 1
    assert file.write_at(bytearray(b"!"), 7) == 1
    assert file.read_at(0, 100) == b"Jello\0\0!"
    assert file.read_at(3, 2) == b"lo"
    assert file.read_at(50, 2) == b""
    assert file.size() == 8
    file.truncate(4)
    file.sync()
    assert file.read_at(2, 100) == b"ll"
    file.close()
    file.close()
    assert files.open(path, create=True).read_at(0, 9) == b"Jell", "creating keeps what is there"


def test_a_closed_file_fails(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/log", create=True)
    file.close()
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.write_at(b"x", 0)
    with pytest.raises(OSError, match="Bad file descriptor"):
        file.sync()


def test_descriptors_are_not_inherited(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/log", create=True)
    assert not os.get_inheritable(file.fileno())
    file.close()


def test_short_writes_go_on_and_a_full_disk_says_so(
    files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = files.open(f"{tmp_path}/log", create=True)
    pwrite, taken_bytes = os.pwrite, 3

    def short_write(descriptor: int, data: Buffer, position: int) -> int:
        if descriptor != file.fileno():  # of a broker that another test left running in this process
            return pwrite(descriptor, data, position)
        return pwrite(descriptor, bytes(data)[:taken_bytes], position)

    monkeypatch.setattr(os, "pwrite", short_write)
    assert file.write_at(b"in four steps", 0) == 13
    assert file.read_at(0, 20) == b"in four steps"
    taken_bytes = 0
    with pytest.raises(OSError, match="No space left") as caught:
        file.write_at(b"full", 0)
    assert caught.value.errno == errno.ENOSPC
    file.close()


def test_short_reads_go_on(files: OsFiles, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = files.open(f"{tmp_path}/log", create=True)
    file.write_at(b"in four steps", 0)
    pread = os.pread
    monkeypatch.setattr(os, "pread", lambda fd, length, position: pread(fd, min(length, 3), position))
    assert file.read_at(0, 13) == b"in four steps"
    assert file.read_at(3, 100) == b"four steps"
    file.close()


def test_allocated_blocks_are_there(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/reserve", create=True)
    file.allocate(0)
    assert file.size() == 0
    file.allocate(1 << 16)
    assert file.size() == 1 << 16
    assert os.stat(file.path).st_blocks * 512 >= 1 << 16
    file.close()


def test_names(files: OsFiles, tmp_path: Path) -> None:
    root = str(tmp_path)
    files.make_directory(f"{root}/a/b")
    files.make_directory(f"{root}/a/b")
    for name in ("z", "y"):
        files.open(f"{root}/a/{name}", create=True).close()
    assert files.list(f"{root}/a") == ["b", "y", "z"]
    assert files.is_directory(f"{root}/a/b")
    assert not files.is_directory(f"{root}/a/y")
    assert files.exists(f"{root}/a/y")
    files.rename(f"{root}/a/y", f"{root}/a/z")
    assert files.list(f"{root}/a") == ["b", "z"]
    files.sync_directory(f"{root}/a")
    files.remove(f"{root}/a/z")
    assert not files.exists(f"{root}/a/z")
    files.open(f"{root}/a/b/c", create=True).close()
    files.remove_directory(f"{root}/a")
    assert files.list(root) == []


def test_removing_follows_no_links(files: OsFiles, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "kept").touch()
    (tmp_path / "a").mkdir()
    (tmp_path / "a" / "link").symlink_to(tmp_path / "outside")
    files.remove_directory(f"{tmp_path}/a")
    assert (tmp_path / "outside" / "kept").exists()


def test_a_removed_file_stays_readable_while_open(files: OsFiles, tmp_path: Path) -> None:
    file = files.open(f"{tmp_path}/log", create=True)
    file.write_at(b"bytes", 0)
    files.remove(file.path)
    assert file.read_at(0, 5) == b"bytes"
    file.close()


def test_facts_of_the_machine(files: OsFiles, tmp_path: Path) -> None:
    total, usable = files.capacity_bytes(str(tmp_path))
    assert 0 < files.free_bytes(str(tmp_path)) < total
    assert 0 < usable < total
    path = tmp_path / "f"
    path.touch()
    os.utime(path, ns=(0, 1_234_567_000_000))
    assert files.modified_ms(str(path)) == 1_234_567
    assert files.boot_id() == files.boot_id()


def test_a_machine_without_a_boot_id_has_none(files: OsFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hightide.runtime.files._BOOT_ID", "/nowhere")
    assert files.boot_id() == ""
