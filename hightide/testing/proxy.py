"""Between the nodes: every connection among them goes through here and can be cut, one direction at a time.

Who connects is known by its source address, whom it wants by the port it came to. A cut direction is silent, as a
broken cable is: its bytes and its end are held, connections made meanwhile wait, and when it is healed everything goes
on as TCP would. A reset is the other kind, a peer that refuses: connections break at once. Clients do not come this
way. Everything here runs on the loop of the test cluster.
"""

import asyncio
import socket
import struct
from collections.abc import Iterable, Sequence

from hightide.testing.places import BROKERS, BROKERS_PROXY, CONTROLLERS, CONTROLLERS_PROXY, Place

Direction = tuple[int, int]  # from one node to another

BACKLOG = 128
HELD_BYTES_MAX = 1 << 20  # more than this waits in the sender's kernel
NOBODY = 0  # somebody who is no node of the cluster
_RESET_ON_CLOSE = struct.pack("ii", 1, 0)


class Proxy:
    """All connections among the nodes of one cluster."""

    def __init__(self, loop: asyncio.AbstractEventLoop, places: Sequence[Place]) -> None:
        self.loop = loop
        self.pipes: set[Pipe] = set()
        self.accepting: set[asyncio.Task[object]] = set()
        self._node_of = {place.host: place.node_id for place in places}
        self._places = {place.node_id: place for place in places}
        self._cut: set[Direction] = set()
        self._refused: set[Direction] = set()
        self._doors: dict[int, list[Door]] = {}

    def open(self, node_id: int) -> None:
        """Let connections to a node in, because it starts."""
        place = self._places[node_id]
        if node_id not in self._doors:
            ways = ((CONTROLLERS_PROXY, CONTROLLERS), (BROKERS_PROXY, BROKERS))
            self._doors[node_id] = [Door(self, place, outside, inside) for outside, inside in ways]

    def close(self, node_id: int) -> None:
        """Refuse connections to a node that is down, as the kernel does where nobody listens."""
        for door in self._doors.pop(node_id, ()):
            door.close()

    async def close_all(self) -> None:
        """The end of the cluster, and of everything that its loop still does."""
        for node_id in list(self._doors):
            self.close(node_id)
        for pipe in list(self.pipes):
            pipe.reset()
        await asyncio.gather(*self.accepting, return_exceptions=True)
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def node_at(self, host: str) -> int:
        """Whose address this is."""
        return self._node_of.get(host, NOBODY)

    # ------------------------------------------------------------------ cuts

    def cut(self, directions: Iterable[Direction], *, reset: bool) -> None:
        """Silence these directions, or break them."""
        (self._refused if reset else self._cut).update(directions)
        for pipe in list(self.pipes):
            pipe.look()

    def heal(self) -> None:
        """Everything goes through again."""
        self._cut.clear()
        self._refused.clear()
        for pipe in list(self.pipes):
            pipe.look()

    def is_cut(self, direction: Direction) -> bool:
        """Whether this direction is silent."""
        return direction in self._cut

    def is_refused(self, one: int, other: int) -> bool:
        """Whether these two break each other's connections."""
        return (one, other) in self._refused or (other, one) in self._refused


class Door:
    """A port of the proxy, and the port of the node behind it."""

    def __init__(self, proxy: Proxy, place: Place, outside: int, inside: int) -> None:
        self._proxy = proxy
        self._place = place
        self._inside = place.port + inside
        self._socket = socket.create_server((place.host, place.port + outside), backlog=BACKLOG)
        self._socket.setblocking(False)
        proxy.loop.add_reader(self._socket, self._acceptable)

    def _acceptable(self) -> None:
        try:
            sock, (host, _) = self._socket.accept()
        except (BlockingIOError, ConnectionAbortedError):
            return
        pipe = Pipe(self._proxy, self._proxy.node_at(host), self._place.node_id, (self._place.host, self._inside))
        pipe.accept(sock)

    def close(self) -> None:
        self._proxy.loop.remove_reader(self._socket)
        self._socket.close()


class Pipe:
    """One connection between two nodes: the near end is whoever connected, the far end the node that it wanted."""

    def __init__(self, proxy: Proxy, source: int, target: int, address: tuple[str, int]) -> None:
        self.proxy = proxy
        self.near = End(self, (source, target))
        self.far = End(self, (target, source))
        self._address = address
        self._connecting: asyncio.Task[object] | None = None
        proxy.pipes.add(self)

    def accept(self, sock: socket.socket) -> None:
        """Somebody connected."""
        accepting = self.proxy.loop.create_task(self.proxy.loop.connect_accepted_socket(lambda: self.near, sock))
        self.proxy.accepting.add(accepting)
        accepting.add_done_callback(self.proxy.accepting.discard)

    def look(self) -> None:
        """Do what can be done now: something was cut, healed, received or lost."""
        if self.proxy.is_refused(*self.near.direction):
            self.reset()
            return
        is_open = not any(self.proxy.is_cut(end.direction) for end in (self.near, self.far))
        if is_open and self._connecting is None and self.near.is_made and not self.near.is_over:
            self._connecting = self.proxy.loop.create_task(self._connect())
        self.near.flow(self.far)
        self.far.flow(self.near)
        if self.near.is_over and (self.far.is_over or self._connecting is None):
            self.proxy.pipes.discard(self)

    async def _connect(self) -> None:
        try:
            await self.proxy.loop.create_connection(lambda: self.far, *self._address)
        except OSError:
            self.reset()

    def other(self, end: "End") -> "End":
        """The opposite end."""
        return self.far if end is self.near else self.near

    def reset(self) -> None:
        """Break it for both."""
        self.proxy.pipes.discard(self)
        if self._connecting is not None:
            self._connecting.cancel()
        for end in (self.near, self.far):
            end.reset()


class End(asyncio.Protocol):
    """One end of a pipe: what is received here travels in `direction`, to the other end."""

    def __init__(self, pipe: Pipe, direction: Direction) -> None:
        self.direction = direction
        self.is_over = False
        self._pipe = pipe
        self._transport: asyncio.Transport | None = None
        self._held = bytearray()
        self._was_reset = self._is_full = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        if self.is_over:  # it was broken meanwhile
            transport.abort()
        else:
            self._pipe.look()

    @property
    def is_made(self) -> bool:
        """Whether there is a connection, or was."""
        return self._transport is not None

    def data_received(self, data: bytes) -> None:
        self._held += data
        self.flow(self._pipe.other(self))

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_over = True
        self._was_reset = exc is not None
        self._pipe.look()

    def flow(self, to: "End") -> None:
        """Pass on what may pass: the bytes, and after them the end."""
        sink = to._transport
        if sink is not None and not self._pipe.proxy.is_cut(self.direction):
            if self._held and not sink.is_closing():
                sink.write(self._held)
                self._held = bytearray()
            if self.is_over:
                to.reset() if self._was_reset else sink.close()
        self._read(len(self._held) < HELD_BYTES_MAX and not to._is_full)

    def _read(self, on: bool) -> None:
        transport = self._transport
        if transport is not None and not transport.is_closing():
            if on:
                transport.resume_reading()
            else:
                transport.pause_reading()

    def pause_writing(self) -> None:
        """This end takes no more for now, so the other one reads no more."""
        self._is_full = True
        self._pipe.other(self)._read(False)

    def resume_writing(self) -> None:
        self._is_full = False
        self._pipe.other(self).flow(self)

    def reset(self) -> None:
        """Break the connection: the peer is told, and what it had not read is lost."""
        self.is_over = True
        if self._transport is not None and not self._transport.is_closing():
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET_ON_CLOSE)
            self._transport.abort()
