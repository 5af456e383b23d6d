"""The disk's floor for brokers that sync: as many writers, each with a file that grows and is synced all the time.

Run as a program of its own (`python -m bench.disk_floor WRITERS MEGABYTES FILE`): so many megabytes for each writer.
The files are a broker's, with blocks made ready ahead; each writer goes on writing while the kernel syncs what came
before, up to what it may have unsynced. Nothing is received, checked or sent.
"""

import json
import os
import sys
import threading
import time

from hightide.limits import MIB
from hightide.runtime.files import OsFiles
from hightide.storage.files import File

UNSYNCED_MIB_MAX = 16
ROOM_MIB = 16


def main(writers: int, megabytes: int, path: str) -> None:
    """Measure and print one JSON object."""
    pieces = -(-megabytes * 1_000_000 // MIB)
    started = time.monotonic()
    children = []
    for number in range(writers):
        child = os.fork()
        if child == 0:
            _write(f"{path}.{number}", pieces)
            os._exit(0)
        children.append(child)
    failed = [child for child in children if os.waitpid(child, 0)[1]]
    if failed:
        raise SystemExit("a writer failed")
    print(json.dumps({"seconds": time.monotonic() - started, "bytes": pieces * MIB}))


def _write(path: str, pieces: int) -> None:
    data = os.urandom(MIB)
    file = OsFiles().open(path, create=True)
    try:
        written = _Written(file, pieces)
        for number in range(pieces):
            written.await_room(number)
            if number % ROOM_MIB == 0:
                file.make_room(number * MIB, ROOM_MIB * MIB)
            file.write_at(data, number * MIB)
            written.count(number + 1)
        written.await_all()
    finally:
        file.close()
        os.unlink(path)


class _Written:
    """How many pieces were written and synced, and the thread that syncs them."""

    def __init__(self, file: File, pieces: int) -> None:
        self._file = file
        self._pieces = pieces
        self._written = self._synced = 0
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._sync, daemon=True)
        self._thread.start()

    def await_room(self, number: int) -> None:
        """Wait until so much is synced that one more may be written."""
        with self._changed:
            self._changed.wait_for(lambda: number - self._synced < UNSYNCED_MIB_MAX)

    def count(self, written: int) -> None:
        """So many are written."""
        with self._changed:
            self._written = written
            self._changed.notify_all()

    def await_all(self) -> None:
        """Wait for the last sync."""
        self._thread.join()

    def _sync(self) -> None:
        while self._synced < self._pieces:
            with self._changed:
                self._changed.wait_for(lambda: self._written > self._synced)
                reached = self._written
            self._file.sync()
            with self._changed:
                self._synced = reached
                self._changed.notify_all()


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
