"""A world in memory: connections are queues, the disk is the simulated one, fsync takes a few turns of the loop.

The node runs in it unchanged, which is what `node.ports` are for.
"""

import asyncio
import random
from collections.abc import Callable, Sequence
from struct import unpack_from
from typing import Any

from hightide.errors import StorageError
from hightide.limits import SMALL_FRAME_BYTES_MAX
from hightide.node.config import Settings
from hightide.node.node import Node
from hightide.node.ports import Burst, Connection, Listener, Part, Receiver
from hightide.rules import ALL_ON, Rules
from hightide.runtime.clock import LoopClock
from hightide.sim.compactor import SimulatedCompactor
from hightide.sim.disk import SimulatedDisk
from hightide.storage.files import FileSlice, Syncable
from hightide.wire.headers import RequestHeader
from hightide.wire.message import ApiMessage
from hightide.wire.versions import FLEXIBLE_FROM, response_class


class MemoryConnection:
    """The broker's end of a connection; `replies` is the client's."""

    def __init__(self) -> None:
        self.peer = "memory:1"
        self.replies: asyncio.Queue[bytes | None] = asyncio.Queue()
        self.receiver: Receiver | None = None
        self._paused = self._closed = False
        self._frames: list[bytes] = []
        self._out = bytearray()

    def give(self, frame: bytes) -> None:
        self._frames.append(frame)
        self._deliver()

    def _deliver(self) -> None:
        while self._frames and not (self._paused or self._closed):
            assert self.receiver is not None
            frame = self._frames.pop(0)  # as `FrameBuffer` hands it over
            self.receiver.frame(frame if len(frame) <= SMALL_FRAME_BYTES_MAX else memoryview(bytearray(frame)))

    def send(self, parts: Sequence[Part]) -> None:
        for part in parts:
            if isinstance(part, FileSlice):
                self._out += part.read()
                part.release()
            else:
                self._out += part
        while len(self._out) >= 4:
            (length,) = unpack_from(">i", self._out)
            if len(self._out) < 4 + length:
                break
            self.replies.put_nowait(bytes(self._out[4 : 4 + length]))
            del self._out[: 4 + length]

    @property
    def is_sending(self) -> bool:
        return False

    def pause(self) -> None:
        self._paused = True

    def resume(self) -> None:
        self._paused = False
        asyncio.get_running_loop().call_soon(self._deliver)

    def finish(self) -> None:
        self.close()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.replies.put_nowait(None)
            assert self.receiver is not None
            asyncio.get_running_loop().call_soon(self.receiver.closed)


class MemoryListener:
    def __init__(self, port: int) -> None:
        self.host, self.port = "memory", port

    def start(self) -> None:
        """Connections are made by calling the network."""

    def close(self) -> None:
        """Nothing to release."""


class MemoryNetwork:
    def __init__(self) -> None:
        self._accept: Callable[[Connection], Receiver | None] | None = None
        self.burst: Burst

    def announce(self, burst: Burst) -> None:
        self.burst = burst

    def listen(self, host: str, port: int, accept: Callable[[Connection], Receiver | None]) -> Listener:
        self._accept = accept
        return MemoryListener(port or 9092)

    async def connect(self, host: str, port: int, receiver: Callable[[Connection], Receiver]) -> Connection:
        raise OSError("nobody to connect to")

    def client(self) -> MemoryConnection:
        connection = MemoryConnection()
        assert self._accept is not None
        connection.receiver = self._accept(connection)
        assert connection.receiver is not None, "the connection was refused"
        return connection


SYNC_TURNS = 50  # an fsync takes longer than an answer


class MemorySyncer:
    """fsync a few turns later; `held` keeps it back until `release`, to look at what is not synced yet."""

    def __init__(self) -> None:
        self.held = False
        self._waiting: list[tuple[Sequence[Syncable], Callable[[Exception | None], None]]] = []

    def sync(self, files: Sequence[Syncable], done: Callable[[Exception | None], None]) -> None:
        self._waiting.append((files, done))
        self._later(SYNC_TURNS)

    def _later(self, turns: int) -> None:
        if turns:
            asyncio.get_running_loop().call_soon(self._later, turns - 1)
        else:
            self._run()

    def _run(self) -> None:
        if self.held:
            return
        waiting, self._waiting = self._waiting, []
        for files, done in waiting:
            error: Exception | None = None
            try:
                for file in files:
                    file.sync()
            except (OSError, StorageError) as caught:
                error = caught
            done(error)

    def release(self) -> None:
        self.held = False
        self._run()


class SeededEntropy:
    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"{seed}:entropy")

    def token(self, length: int) -> bytes:
        return self._random.randbytes(length)


class MemoryWorld:
    """`node.ports.World` around one simulated disk. Another world on the same disk is another life of the process."""

    def __init__(self, disk: SimulatedDisk, seed: int = 0) -> None:
        self.files = disk
        self.clock = LoopClock(asyncio.get_running_loop())
        self.network = MemoryNetwork()
        self.syncer = MemorySyncer()
        self.compactor = SimulatedCompactor(disk, self.clock, random.Random(seed), deaths=0)
        self.entropy = SeededEntropy(seed)


class MemoryBroker:
    """A node in a memory world, with a client that speaks any API in any version."""

    def __init__(self, disk: SimulatedDisk, *, seed: int = 0, rules: Rules = ALL_ON, **settings: str) -> None:
        self.world = MemoryWorld(disk, seed)
        flags = {"log.dirs": "/data", "node.id": "1"} | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        self.node = Node(self.world, Settings.load(None, {}, flags), rules, reserve_bytes=64 * 1024)
        self._correlation_id = 0

    async def start(self) -> "MemoryBroker":
        await self.node.start()
        self.connection = self.world.network.client()
        return self

    def die(self) -> None:
        """The process is gone: none of its timers may act on the disk any more."""
        self.world.syncer.held = True
        self.node.checkpoints.stop()
        self.node.housekeeping.stop()

    def send(self, message: ApiMessage, version: int) -> int:
        """Send without waiting; the correlation id."""
        self._correlation_id += 1
        out = bytearray()
        RequestHeader(message.api_key, version, self._correlation_id, "test").write(out)
        self.connection.give(bytes(out) + message.encode(version))
        return self._correlation_id

    async def receive(self, api_key: int, version: int) -> Any:
        """The next answer, decoded."""
        reply = await asyncio.wait_for(self.connection.replies.get(), 10)
        assert reply is not None, "the broker closed the connection"
        tagged = version >= FLEXIBLE_FROM.get(api_key, 1 << 15) and api_key != 18
        return response_class(api_key).decode(reply[5 if tagged else 4 :], version)

    async def call(self, message: ApiMessage, version: int) -> Any:
        """Send and wait for the answer."""
        self.send(message, version)
        return await self.receive(message.api_key, version)
