"""The network between simulated hosts: listening, connecting, cutting, healing.

`SimulatedNetwork` is the whole of it; `HostNetwork` is `node.ports.Network` for one process. Hosts have names and no
addresses. A host without power answers nothing; a host whose process is dead refuses; one whose process is paused lets
its kernel accept, and the process finds the connections when it goes on.
"""

import asyncio
import errno
import os
from collections.abc import Callable, Iterator
from random import Random
from zlib import crc32

from hightide.node.ports import Burst, Connection, Receiver
from hightide.sim.connections import EndState, Pipe, Signal, SimulatedConnection
from hightide.sim.links import Link
from hightide.sim.loop import SimulatedLoop
from hightide.sim.trace import Trace
from hightide.sim.turns import Turn

Accept = Callable[[Connection], Receiver | None]

FIRST_FREE_PORT = 20_000
FIRST_RETRY_SECONDS = 1.0  # Linux: a connection request is repeated after 1, 2, 4, … seconds
RETRIES_MAX = 6  # and given up after two minutes


class SimulatedListener:
    """`node.ports.Listener`: what connects before `start` waits."""

    def __init__(
        self,
        network: "SimulatedNetwork",
        loop: SimulatedLoop,
        host: str,
        port: int,
        accept: Accept,
        turn: Turn | None = None,
    ) -> None:
        self.host, self.port = host, port
        self._network = network
        self._loop = loop
        self._accept = accept
        self._turn = turn
        self._waiting: list[SimulatedConnection] = []
        self._is_started = False

    def start(self) -> None:
        """Begin to accept."""
        self._is_started = True
        for connection in self._waiting:
            self._loop.call_soon(self._take, connection)
        self._waiting.clear()

    def close(self) -> None:
        """Accept no more."""
        self._network.close_listener(self)
        for connection in self._waiting:
            connection.close()
        self._waiting.clear()

    def connected(self, client: str, out: Pipe, back: Pipe) -> SimulatedConnection:
        """The kernel has a new connection for us."""
        connection = SimulatedConnection(self._network, self._loop, self.host, client, out, back)
        if self._is_started:
            self._loop.call_soon(self._take, connection)
        else:
            self._waiting.append(connection)
        return connection

    def _take(self, connection: SimulatedConnection) -> None:
        receiver = self._accept(connection)
        if receiver is None:
            connection.close()
        else:
            connection.start(receiver, self._turn)


class SimulatedNetwork:
    """All links, listeners and connections. It runs on a loop of its own, which nobody pauses."""

    def __init__(self, loop: SimulatedLoop, random: Random, trace: Trace) -> None:
        self.loop = loop
        self.draw = random.random
        self.busy_seconds = 0.0
        """How long processes are busy at most before they look at what has come for them."""
        self._random = random
        self._trace = trace
        self._links: dict[tuple[str, str], Link] = {}
        self._listeners: dict[tuple[str, int], SimulatedListener] = {}
        self._ends: dict[SimulatedConnection, None] = {}
        self._pipes: dict[Pipe, tuple[str, str]] = {}
        self._down: set[str] = set()
        self._next_port = FIRST_FREE_PORT

    @property
    def now(self) -> float:
        """True time."""
        return self.loop.scheduler.now

    # ------------------------------------------------------------------ hosts

    def is_up(self, host: str) -> bool:
        """Whether a host has power."""
        return host not in self._down

    def process_died(self, host: str, *, power_lost: bool = False) -> None:
        """Its listeners and connections end: told to the others after a kill, silently when power is lost."""
        for address in [address for address in self._listeners if address[0] == host]:
            del self._listeners[address]
        if power_lost:
            self._down.add(host)
        for end in [end for end in self._ends if end.host == host]:
            if power_lost:
                end.unplugged()
            else:
                end.killed()

    def booted(self, host: str) -> None:
        """The host has power: it answers to what others still send to connections it does not know."""
        if host in self._down:
            self._down.discard(host)
            for pipe, (_, target) in list(self._pipes.items()):
                if target == host:
                    pipe.resume()

    # ------------------------------------------------------------------ faults

    def link(self, source: str, target: str) -> Link:
        """One direction between two hosts."""
        link = self._links.get((source, target))
        if link is None:
            link = self._links[source, target] = Link(self._random)
        return link

    def links(self) -> Iterator[tuple[str, str, Link]]:
        """Every direction that was ever used."""
        return ((source, target, link) for (source, target), link in self._links.items())

    def cut(self, source: str, target: str) -> None:
        """Nothing gets from one host to the other, in this direction."""
        self.link(source, target).is_cut = True

    def restore(self, source: str, target: str) -> None:
        """A good link again, and what TCP kept is sent again."""
        self.link(source, target).heal()
        for pipe, hosts in list(self._pipes.items()):
            if hosts == (source, target):
                pipe.resume()
            elif hosts == (target, source):
                pipe.reopen()

    def heal(self) -> None:
        """All links are good."""
        for source, target in list(self._links):
            self.restore(source, target)

    def reset_connections(self, one: str, other: str) -> int:
        """Break every connection between two hosts; how many."""
        broken = [
            end for end in self._ends if (end.host, end.other.host) == (one, other) and end.state is EndState.OPEN
        ]
        for end in broken:
            end.reset()
            end.other.reset()
        return len(broken)

    # ------------------------------------------------------------------ connections

    def listen(
        self, loop: SimulatedLoop, host: str, port: int, accept: Accept, turn: Turn | None = None
    ) -> SimulatedListener:
        """Bind; EADDRINUSE when somebody has it."""
        if not port:
            port = self.free_port()
        if (host, port) in self._listeners:
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE), f"{host}:{port}")
        listener = SimulatedListener(self, loop, host, port, accept, turn)
        self._listeners[host, port] = listener
        return listener

    def close_listener(self, listener: SimulatedListener) -> None:
        """Nobody is accepted there any more."""
        address = (listener.host, listener.port)
        if self._listeners.get(address) is listener:
            del self._listeners[address]

    def free_port(self) -> int:
        """A port that was never used."""
        self._next_port += 1
        return self._next_port

    def try_connect(self, attempt: "_Attempt") -> None:
        """The request arrives, or not: then it is repeated."""
        if attempt.is_over:
            return
        source, target = attempt.host, attempt.target
        there, back = self.link(source, target), self.link(target, source)
        if there.is_cut or back.is_cut or not self.is_up(target):
            attempt.retries += 1
            if attempt.retries > RETRIES_MAX:
                attempt.fail(errno.ETIMEDOUT)
            else:
                self.loop.after(FIRST_RETRY_SECONDS * 2 ** (attempt.retries - 1), self.try_connect, attempt)
            return
        listener = self._listeners.get((target, attempt.port))
        if listener is None:
            self.loop.after(back.delay(), attempt.fail, errno.ECONNREFUSED)
            return
        out, returning = self._pipe(source, target), self._pipe(target, source)
        client = SimulatedConnection(self, attempt.loop, source, f"{target}:{attempt.port}", out, returning)
        server = listener.connected(f"{source}:{self.free_port()}", returning, out)
        client.other, server.other = server, client
        self._ends[client] = self._ends[server] = None
        self.loop.after(back.delay(), attempt.established, client)

    def _pipe(self, source: str, target: str) -> Pipe:
        pipe = Pipe(self, self.link(source, target))
        self._pipes[pipe] = (source, target)
        return pipe

    def delivered(self, pipe: Pipe, what: bytes | Signal) -> None:
        """Something arrived: a line of the trace."""
        source, target = self._pipes[pipe]
        pipe.link.delivered += 1
        if isinstance(what, bytes):
            self._trace.note(f"{source}>{target} {len(what)}", crc32(what))
        else:
            self._trace.note(f"{source}>{target} {what.value}")

    def window_opened(self, pipe: Pipe, acknowledgements: Link) -> None:
        """The reader has made room; the sender hears of it if anything gets through to it."""
        if acknowledgements.is_cut:
            pipe.window_stalls = True
        else:
            self.loop.after(acknowledgements.delay(), pipe.target.other.may_write)

    def ended(self, end: SimulatedConnection) -> None:
        """One end is closed; a connection is forgotten when neither end is open and nothing can be told any more."""
        if end.state is EndState.OPEN or end.other.state is EndState.OPEN:
            return
        for each in (end, end.other):
            self._ends.pop(each, None)
        self.loop.after(FIRST_RETRY_SECONDS, self._forget, end)

    def _forget(self, end: SimulatedConnection) -> None:
        for pipe in (end.pipe, end.other.pipe):
            pipe.drop()
            self._pipes.pop(pipe, None)

    def connections(self) -> Iterator[SimulatedConnection]:
        """Every end that is open."""
        return (end for end in self._ends if end.state is EndState.OPEN)


class _Attempt:
    """One call of `connect`."""

    __slots__ = ("future", "host", "loop", "port", "retries", "target")

    def __init__(self, loop: SimulatedLoop, host: str, target: str, port: int) -> None:
        self.loop = loop
        self.host = host
        self.target = target
        self.port = port
        self.retries = 0
        self.future: asyncio.Future[SimulatedConnection] = loop.create_future()

    @property
    def is_over(self) -> bool:
        """Whether nobody waits for it any more."""
        return self.loop.is_dead or self.future.done()

    def fail(self, code: int) -> None:
        """It did not work."""
        if not self.is_over:
            self.future.set_exception(OSError(code, os.strerror(code)))

    def established(self, connection: SimulatedConnection) -> None:
        """It worked. Whoever gave up meanwhile has a kernel that closes it."""
        if not self.is_over:
            self.future.set_result(connection)
        else:
            connection.killed()

    def abandon(self) -> None:
        """The caller was cancelled, perhaps when the answer was there already."""
        future = self.future
        if future.done() and not future.cancelled() and future.exception() is None:
            future.result().close()


class HostNetwork:
    """`node.ports.Network` of one process on one host."""

    def __init__(self, network: SimulatedNetwork, loop: SimulatedLoop, host: str) -> None:
        self._network = network
        self._loop = loop
        self._host = host
        self._turn: Turn | None = None

    def announce(self, burst: Burst) -> None:
        """Tell it of frames that came together."""
        self._turn = Turn(self._network, self._loop, burst)

    def listen(self, host: str, port: int, accept: Accept) -> SimulatedListener:
        """Bind a port of this host, which is the only one it can bind."""
        if host != self._host:
            raise OSError(errno.EADDRNOTAVAIL, os.strerror(errno.EADDRNOTAVAIL), host)
        return self._network.listen(self._loop, host, port, accept, self._turn)

    async def connect(self, host: str, port: int, receiver: Callable[[Connection], Receiver]) -> SimulatedConnection:
        """Connect to a host by its name."""
        network = self._network
        attempt = _Attempt(self._loop, self._host, host, port)
        network.loop.after(network.link(self._host, host).delay(), network.try_connect, attempt)
        try:
            connection = await attempt.future
        except asyncio.CancelledError:
            attempt.abandon()
            raise
        connection.start(receiver(connection))
        return connection
