"""The world of a node in this process: the real one, in which everything the node holds can be taken from it.

`NodeWorld.end` does what the kernel does to a process that is killed: connections are reset, files are closed, nothing
is written any more. A disk can be full for one node alone.
"""

import asyncio
import errno
import os
import socket
import struct
from collections.abc import Callable
from pathlib import Path
from threading import Lock
from weakref import WeakSet

from hightide.node.ports import Connection, Receiver
from hightide.runtime.compactor import ProcessCompactor
from hightide.runtime.connections import SocketConnection
from hightide.runtime.files import OsFiles
from hightide.runtime.network import SocketListener, SocketNetwork
from hightide.runtime.syncer import ThreadSyncer
from hightide.runtime.world import SystemEntropy
from hightide.storage.files import File
from hightide.testing.clock import BrokersClock, NodeClock

_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class NodeNetwork(SocketNetwork):
    """Sockets that can all be closed at once."""

    def __init__(self, loop: asyncio.AbstractEventLoop, frame_bytes_max: int, source_host: str | None) -> None:
        super().__init__(loop, frame_bytes_max, source_host)
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._listeners: list[SocketListener] = []

    def wrap(self, sock: socket.socket, peer: str) -> SocketConnection:
        self._sockets.add(sock)
        return super().wrap(sock, peer)

    def listen(self, host: str, port: int, accept: Callable[[Connection], Receiver | None]) -> SocketListener:
        listener = super().listen(host, port, accept)
        self._listeners.append(listener)
        return listener

    def reset(self) -> None:
        """Break every connection and refuse new ones."""
        for listener in self._listeners:
            listener.close()
        for sock in list(self._sockets):
            if sock.fileno() >= 0:
                self.loop.remove_reader(sock)
                self.loop.remove_writer(sock)
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
                sock.close()


class Disk:
    """How many bytes a node may still take; as many as there are unless a test says otherwise."""

    def __init__(self) -> None:
        self.free: int | None = None
        self._lock = Lock()

    def fill(self) -> None:
        """Nothing more fits."""
        with self._lock:
            self.free = 0

    def empty(self) -> None:
        """There is room again."""
        with self._lock:
            self.free = None

    def take(self, count: int, path: str) -> None:
        """OSError (ENOSPC) when that many do not fit."""
        with self._lock:
            if self.free is not None and count > 0:
                if count > self.free:
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), path)
                self.free -= count

    def give(self, count: int) -> None:
        """That many bytes are no longer used."""
        with self._lock:
            if self.free is not None and count > 0:
                self.free += count


class NodeFile:
    """A file that grows only while there is room."""

    def __init__(self, plain: File, files: "NodeFiles") -> None:
        self.path = plain.path
        self.fileno = plain.fileno
        self.size = plain.size
        self.read_at = plain.read_at
        self.expect = plain.expect
        self.make_room = plain.make_room
        self.sync = plain.sync
        self._plain = plain
        self._files = files

    def write_at(self, data: bytes | bytearray | memoryview, position: int) -> int:
        self._grow(position + len(data))
        return self._plain.write_at(data, position)

    def allocate(self, size: int) -> None:
        self._grow(size)
        self._plain.allocate(size)

    def truncate(self, size: int) -> None:
        if self._files.disk.free is not None:
            self._files.disk.give(self.size() - size)
        self._plain.truncate(size)

    def close(self) -> None:
        self._plain.close()
        self._files.opened.discard(self)

    def _grow(self, size: int) -> None:
        if self._files.disk.free is not None:
            self._files.disk.take(size - self.size(), self.path)


class NodeFiles(OsFiles):
    """The files of one life of a node, on its disk."""

    def __init__(self, disk: Disk) -> None:
        self.disk = disk
        self.opened: set[NodeFile] = set()

    def open(self, path: str, *, create: bool = False) -> File:
        file = NodeFile(super().open(path, create=create), self)
        self.opened.add(file)
        return file

    def rename(self, old: str, new: str) -> None:
        replaced = _bytes_at(new)
        super().rename(old, new)
        self.disk.give(replaced)

    def remove(self, path: str) -> None:
        removed = _bytes_at(path)
        super().remove(path)
        self.disk.give(removed)

    def remove_directory(self, path: str) -> None:
        removed = sum(_bytes_at(str(file)) for file in Path(path).rglob("*"))
        super().remove_directory(path)
        self.disk.give(removed)

    def free_bytes(self, path: str) -> int:
        return super().free_bytes(path) if self.disk.free is None else self.disk.free

    def capacity_bytes(self, path: str) -> tuple[int, int]:
        return self.total_bytes(path), self.free_bytes(path)

    def close(self) -> None:
        """Close whatever is open."""
        for file in list(self.opened):
            file.close()


def _bytes_at(path: str) -> int:
    try:
        status = os.lstat(path)
    except FileNotFoundError:
        return 0
    return 0 if os.path.isdir(path) else status.st_size


class NodeWorld:
    """`node.ports.World` of one life."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        time: BrokersClock,
        disk: Disk,
        *,
        frame_bytes_max: int,
        source_host: str | None,
    ) -> None:
        self.clock = NodeClock(loop, time)
        self.network = NodeNetwork(loop, frame_bytes_max, source_host)
        self.files = NodeFiles(disk)
        self.syncer = ThreadSyncer(loop)
        self.compactor = ProcessCompactor(loop)
        self.entropy = SystemEntropy()
        self._time = time
        time.join(self.clock)

    def end(self) -> None:
        """Take everything away. Idempotent."""
        self._time.leave(self.clock)
        self.network.reset()
        self.compactor.close()
        self.syncer.close()
        self.files.close()
