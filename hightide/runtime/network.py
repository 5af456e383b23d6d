"""Real sockets: listening for connections, and opening them. What then happens on each is in `runtime.connections`."""

import asyncio
import os
import socket
from collections.abc import Callable
from functools import partial
from typing import Any

from hightide import limits
from hightide.node.ports import Burst, Connection, Receiver
from hightide.runtime.clock import LoopClock
from hightide.runtime.connections import SocketConnection, Turn
from hightide.runtime.large_requests import LargeRequests
from hightide.runtime.pacing import is_loopback, is_on_this_machine, send_as_usual, send_unpaced

ACCEPTS_PER_TURN = 64  # new connections taken before the others get their turn
ACCEPT_AGAIN_SECONDS = 1.0  # without a descriptor to give, a listening socket stays readable: look again later


class SocketListener:
    """`node.ports.Listener`: accepts in small groups so that a flood of connections starves nobody."""

    def __init__(
        self,
        network: "SocketNetwork",
        sock: socket.socket,
        accept: Callable[[Connection], Receiver | None],
        usual_congestion: bytes,
    ) -> None:
        self.host, self.port = sock.getsockname()[:2]
        self._network = network
        self._socket = sock
        self._accept = accept
        self._usual_congestion = usual_congestion
        self._loop = network.loop
        self._again: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Begin to accept; what connected meanwhile waits in the kernel's queue."""
        self._loop.add_reader(self._socket.fileno(), self._acceptable)

    def _acceptable(self) -> None:
        for _ in range(ACCEPTS_PER_TURN):
            try:
                sock, address = self._socket.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError:  # out of descriptors
                self._loop.remove_reader(self._socket.fileno())
                self._again = self._loop.call_later(ACCEPT_AGAIN_SECONDS, self.start)
                return
            if self._network.accepted >= self._network.accepted_max:
                sock.close()
                continue
            if not is_on_this_machine(sock):
                send_as_usual(sock, self._usual_congestion)
            connection = self._network.wrap(sock, f"{address[0]}:{address[1]}")
            self._network.accepted += 1
            connection.on_closed = self._network.accepted_closed
            connection.share(self._network.large_requests)
            receiver = self._accept(connection)
            if receiver is None:
                connection.close()
            else:
                connection.start(receiver)

    def close(self) -> None:
        """Stop accepting."""
        if self._again is not None:
            self._again.cancel()
        if self._socket.fileno() >= 0:
            self._loop.remove_reader(self._socket.fileno())
            self._socket.close()


class SocketNetwork:
    """`node.ports.Network` on TCP. Outgoing connections come from `source_host`, where one is given."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        frame_bytes_max: int = limits.FRAME_BYTES_MAX,
        source_host: str | None = None,
    ) -> None:
        self.loop = loop
        self.accepted = 0
        self.accepted_max = limits.CONNECTIONS_MAX
        """Connections that others may open. Segments need descriptors too: see `RealWorld`."""
        self.large_requests = LargeRequests(LoopClock(loop))
        self._turn = Turn(loop)
        self._frame_bytes_max = frame_bytes_max
        self._source_host = source_host

    def announce(self, burst: Burst) -> None:
        """Tell it of small frames that came in the same turn of the loop, over connections that others opened."""
        self._turn.burst = burst

    def accepted_closed(self) -> None:
        """One of the accepted connections is gone."""
        self.accepted -= 1

    def wrap(self, sock: socket.socket, peer: str) -> SocketConnection:
        """Make a connected socket ours."""
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return SocketConnection(self._turn, sock, peer, self._frame_bytes_max)

    def listen(self, host: str, port: int, accept: Callable[[Connection], Receiver | None]) -> SocketListener:
        """Bind a listening port."""
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            usual = send_unpaced(sock)
            sock.bind((host, port))
            sock.listen(1024)
            sock.setblocking(False)
        except OSError:
            sock.close()
            raise
        return SocketListener(self, sock, accept, usual)

    async def connect(self, host: str, port: int, receiver: Callable[[Connection], Receiver]) -> SocketConnection:
        """Connect, resolving the name without blocking the loop."""
        infos = _numeric(host, port) or await self._resolved(host, port)
        error: OSError = OSError(f"{host}:{port} has no address")
        for family, kind, protocol, _, address in infos:
            sock = socket.socket(family, kind, protocol)
            sock.setblocking(False)
            if is_loopback(address[0]):
                send_unpaced(sock)
            try:
                if self._source_host is not None:
                    sock.bind((self._source_host, 0))
                await self._connected(sock, address)
            except OSError as caught:
                sock.close()
                error = caught
                continue
            except BaseException:  # cancelled: a time-out of the caller's
                sock.close()
                raise
            connection = self.wrap(sock, f"{host}:{port}")
            connection.gather()
            connection.start(receiver(connection))
            return connection
        raise error

    async def _resolved(self, host: str, port: int) -> list[Any]:
        """The addresses of a name, from a thread: `shutdown_default_executor` waits for it at the loop's end."""
        return await self.loop.run_in_executor(None, partial(socket.getaddrinfo, host, port, type=socket.SOCK_STREAM))

    async def _connected(self, sock: socket.socket, address: Any) -> None:
        """Wait until the peer answers.

        Not with the loop's `sock_connect`: uvloop's asks its threads to resolve the address once more, and a loop that
        is closed meanwhile complains about their answer.
        """
        try:
            sock.connect(address)
            return
        except (BlockingIOError, InterruptedError):
            pass
        answered = self.loop.create_future()
        self.loop.add_writer(sock.fileno(), _resolve, answered)
        try:
            await answered
        finally:
            self.loop.remove_writer(sock.fileno())
        code = sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))


def _resolve(answered: "asyncio.Future[None]") -> None:
    if not answered.done():
        answered.set_result(None)


def _numeric(host: str, port: int) -> list[Any]:
    """The address itself where no name has to be resolved: no thread of the resolver for every connection."""
    try:
        return socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST)
    except socket.gaierror:
        return []
