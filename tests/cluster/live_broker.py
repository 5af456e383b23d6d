"""A node in this process on real sockets, files and fsync threads, and a client that reads only when it is told to."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Self

from hightide.node.config import Settings
from hightide.node.node import Node
from hightide.node.ports import Syncer
from hightide.runtime.world import RealWorld
from hightide.storage.files import Syncable
from hightide.wire.headers import RequestHeader, read_response_header
from hightide.wire.message import ApiMessage
from hightide.wire.primitives import Reader
from hightide.wire.versions import response_class
from tests.requests import create_topic

DEADLINE_SECONDS = 20.0


class HeldSyncer:
    """A syncer that keeps everything back while `held`: what is written is not yet on disk."""

    def __init__(self, inner: Syncer) -> None:
        self.held = False
        self._inner = inner
        self._waiting: list[tuple[Sequence[Syncable], Callable[[Exception | None], None]]] = []

    def sync(self, files: Sequence[Syncable], done: Callable[[Exception | None], None]) -> None:
        if self.held:
            self._waiting.append((files, done))
        else:
            self._inner.sync(files, done)

    def release(self) -> None:
        self.held = False
        waiting, self._waiting = self._waiting, []
        for files, done in waiting:
            self._inner.sync(files, done)


class LiveBroker:
    """`async with LiveBroker(directory) as broker`: started, with a topic `t`, and stopped at the end."""

    def __init__(self, directory: Path, **settings: str) -> None:
        loop = asyncio.get_running_loop()
        flags = {"log.dirs": str(directory / "data"), "listeners": "PLAINTEXT://127.0.0.1:0"} | {
            name.replace("_", "."): value for name, value in settings.items()
        }
        loaded = Settings.load(None, {}, flags)
        self.world = RealWorld(loop, loaded.socket_request_max_bytes)
        self._threads = self.world.syncer
        self.syncer = HeldSyncer(self._threads)
        self.world.syncer = self.syncer  # type: ignore[assignment]
        self.node = Node(self.world, loaded, reserve_bytes=0)
        self.clients: list[Client] = []
        self._is_stopped = False

    async def __aenter__(self) -> Self:
        await self.node.start()
        if self.node.image.topic_named("t") is None:
            client = await self.connect()
            created = await client.call(create_topic("t"), 7)
            assert created.topics[0].error_code == 0
            client.close()
        return self

    async def __aexit__(self, *_: object) -> None:
        self.syncer.release()
        for client in self.clients:
            client.close()
        await self.stop()

    async def stop(self) -> None:
        if not self._is_stopped:
            self._is_stopped = True
            await self.node.stop()
            self._threads.close()

    async def connect(self, listener: int = 0, receive_bytes: int | None = None) -> "Client":
        """A new connection; `receive_bytes` makes the kernel hold little for a client that does not read."""
        place = self.node.listeners[listener]
        client = await Client.open(place.host, place.port, receive_bytes)
        self.clients.append(client)
        return client

    @property
    def partition(self) -> Any:
        """Partition 0 of t."""
        return self.node.partition("t", 0)


class Client:
    """One raw connection."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        self._loop = asyncio.get_running_loop()
        self._correlation_id = 0

    @classmethod
    async def open(cls, host: str, port: int, receive_bytes: int | None = None) -> "Client":
        sock = socket.socket()
        sock.setblocking(False)
        if receive_bytes is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        try:
            await asyncio.get_running_loop().sock_connect(sock, (host, port))
        except OSError:
            sock.close()
            raise
        return cls(sock)

    def close(self) -> None:
        self.socket.close()

    def frame(self, message: ApiMessage, version: int, padding: int = 0) -> bytes:
        """A request with its length and a new correlation id; brokers ignore bytes behind the body."""
        self._correlation_id += 1
        out = bytearray()
        RequestHeader(message.api_key, version, self._correlation_id, "test").write(out)
        out += message.encode(version) + bytes(padding)
        return len(out).to_bytes(4) + bytes(out)

    async def send(self, message: ApiMessage, version: int) -> int:
        """Send without waiting for the answer; its correlation id."""
        await self.send_bytes(self.frame(message, version))
        return self._correlation_id

    async def send_bytes(self, data: bytes) -> None:
        await asyncio.wait_for(self._loop.sock_sendall(self.socket, data), DEADLINE_SECONDS)

    async def receive_frame(self) -> bytes | None:
        """The next answer; None when the broker closed the connection."""
        length = await self._exactly(4)
        return None if length is None else await self._exactly(int.from_bytes(length))

    async def receive(self, api_key: int, version: int, correlation_id: int | None = None) -> Any:
        """The next answer, decoded."""
        frame = await self.receive_frame()
        assert frame is not None, "the broker closed the connection"
        reader = Reader(frame)
        answered = read_response_header(reader, api_key, version)
        assert correlation_id in (None, answered), "answers come in the order of the requests"
        return response_class(api_key).read(reader, version)

    async def call(self, message: ApiMessage, version: int) -> Any:
        """Send and wait for the answer."""
        correlation_id = await self.send(message, version)
        return await self.receive(message.api_key, version, correlation_id)

    async def is_closed(self) -> bool:
        """True when the broker closes the connection, False when it answers something."""
        try:
            return not await asyncio.wait_for(self._loop.sock_recv(self.socket, 1), DEADLINE_SECONDS)
        except ConnectionResetError:
            return True

    async def _exactly(self, count: int) -> bytes | None:
        data = bytearray()
        while len(data) < count:
            try:
                part = await asyncio.wait_for(
                    self._loop.sock_recv(self.socket, min(1 << 20, count - len(data))), DEADLINE_SECONDS
                )
            except ConnectionResetError:
                return None
            if not part:
                return None
            data += part
        return bytes(data)


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is so: for what the other end of a socket causes and nobody announces."""
    async with asyncio.timeout(DEADLINE_SECONDS):
        while not condition():
            await asyncio.sleep(0.001)
