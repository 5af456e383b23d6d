"""Blocks that are made ready behind the end of a file: there, and in nobody's way."""

import os
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from hightide.limits import MIB, ROOM_FROM_BYTES
from hightide.runtime import room
from hightide.runtime.files import OsFiles
from hightide.storage.log import Log
from hightide.storage.settings import LogSettings, OpenFacts
from tests.unit.storage.logs import NOW_MS, TOPIC_ID, append

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux makes room without making a file longer")

BLOCK_UNIT = 512  # of st_blocks, whatever the file system's own blocks are
SLACK_BYTES = 64 * 1024  # blocks are whole, and a file system counts its own notes of a file too


def allocated(path: Path) -> int:
    return os.stat(path).st_blocks * BLOCK_UNIT


@pytest.fixture
def makes_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Skips where the file system of the tests can't, which the product takes as it is; takes its time if it wants."""
    monkeypatch.setattr(room, "SLOW_SECONDS", float("inf"))
    monkeypatch.setattr(room, "_rests_until", 0.0)
    with open(tmp_path / "probe", "wb") as file:
        room.make_room(file.fileno(), 0, MIB)
    if allocated(tmp_path / "probe") < MIB:
        pytest.skip("this file system does not make room")


@pytest.mark.usefixtures("makes_room")
def test_blocks_are_ready_and_the_size_stays(tmp_path: Path) -> None:
    file = OsFiles().open(f"{tmp_path}/log", create=True)
    file.write_at(b"hello", 0)
    file.make_room(5, 3 * MIB)
    assert file.size() == 5
    assert file.read_at(0, 100) == b"hello"
    assert allocated(tmp_path / "log") >= 3 * MIB
    file.truncate(5)
    assert allocated(tmp_path / "log") <= SLACK_BYTES
    assert file.read_at(0, 100) == b"hello"
    file.close()


@pytest.mark.usefixtures("makes_room")
def test_a_disk_that_is_nearly_full_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "ROOM_SHARE_OF_FREE", 1 << 60)
    file = OsFiles().open(f"{tmp_path}/log", create=True)
    file.make_room(0, MIB)
    assert allocated(tmp_path / "log") <= SLACK_BYTES
    file.close()


def test_it_never_fails(tmp_path: Path) -> None:
    file = OsFiles().open(f"{tmp_path}/log", create=True)
    file.make_room(-1, MIB)
    file.make_room(0, 0)
    file.close()
    file.make_room(0, MIB)
    assert os.path.getsize(tmp_path / "log") == 0


def test_nor_where_the_c_library_can_not_be_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(room, "_fallocate", None)
    monkeypatch.setitem(sys.modules, "ctypes", None)  # importing it is an ImportError now
    file = OsFiles().open(f"{tmp_path}/log", create=True)
    file.make_room(0, MIB)
    assert file.write_at(b"hello", 0) == 5
    assert allocated(tmp_path / "log") <= SLACK_BYTES
    file.close()


def open_log(tmp_path: Path, facts: OpenFacts | None = None) -> Log:
    settings = LogSettings(segment_bytes=8 * MIB)
    return Log.open(
        OsFiles(), f"{tmp_path}/orders-0", "orders", 0, TOPIC_ID, settings, facts=facts or OpenFacts(), now_ms=NOW_MS
    )


def grown(tmp_path: Path) -> Log:
    """A log of four MiB and a bit: room was made for more."""
    log = open_log(tmp_path)
    for _ in range(9):
        append(log, bytes(500_000))
    return log


def sealed(log: Log) -> None:
    log.roll()
    log.close(clean=False)


def killed(log: Log) -> None:
    log.close(clean=False)


def stopped(log: Log) -> None:
    log.close(clean=True)


@pytest.mark.usefixtures("makes_room")
@pytest.mark.parametrize("end", [sealed, stopped, killed])
def test_what_was_not_needed_is_given_back(tmp_path: Path, end: Callable[[Log], None]) -> None:
    log = grown(tmp_path)
    path = tmp_path / "orders-0" / f"{0:020d}.log"
    size = os.path.getsize(path)
    assert size > ROOM_FROM_BYTES
    assert allocated(path) > size + SLACK_BYTES
    end(log)
    if end is killed:  # nobody could: the next start does
        assert allocated(path) > size + SLACK_BYTES
        open_log(tmp_path).close(clean=False)
    assert os.path.getsize(path) == size
    assert allocated(path) <= size + SLACK_BYTES


def test_after_a_call_that_waited_for_the_disk_writes_find_their_blocks_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now, takes, calls = 100.0, 0.0, 0

    def find_blocks(descriptor: int, mode: int, position: int, length: int) -> int:
        nonlocal now, calls
        now += takes
        calls += 1
        return 0

    monkeypatch.setattr(room, "_fallocate", find_blocks)
    monkeypatch.setattr(room, "_rests_until", 0.0)
    monkeypatch.setattr("hightide.runtime.room.time.monotonic", lambda: now)
    with open(tmp_path / "log", "wb") as file:

        def ask() -> int:
            room.make_room(file.fileno(), 0, 4096)
            return calls

        assert (ask(), ask()) == (1, 2)
        takes = 2 * room.SLOW_SECONDS
        assert ask() == 3
        takes = 0.0
        assert ask() == 3
        now += room.REST_SECONDS
        assert (ask(), ask()) == (4, 5)
