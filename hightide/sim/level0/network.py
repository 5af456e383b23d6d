"""A network of connections between numbered nodes, as TCP gives them.

Within one direction of one connection order is a law. Between connections there is none: what a broken connection still
carries may arrive after what its successor carries, which is how duplicates and late messages of a former life come
about. A message is lost only with its connection: the rest of that direction is lost with it.
"""

from collections.abc import Callable
from random import Random
from typing import Any

from hightide.sim.level0.kernel import Kernel

STALL_SECONDS_MAX = 5.0  # RELIABILITY.md: delay to 5 s


class Stream:
    """One direction of a connection."""

    __slots__ = ("ends_at", "is_open", "last_arrival", "source", "target")

    def __init__(self, source: int, target: int) -> None:
        self.source = source
        self.target = target
        self.is_open = True
        self.last_arrival = 0.0
        self.ends_at = float("inf")
        """What would arrive then or later never does."""


class Connection:
    """Both directions. `request` goes from the opener; whoever finds one broken opens another."""

    __slots__ = ("request", "response")

    def __init__(self, source: int, target: int) -> None:
        self.request = Stream(source, target)
        self.response = Stream(target, source)

    @property
    def is_open(self) -> bool:
        """Whether messages can still be sent. Nobody is told of a break: silence and time-outs tell."""
        return self.request.is_open and self.response.is_open


class Hold:
    """Keeps the messages that `matches` picks: (source, target, action, arguments) → whether it is one of them."""

    __slots__ = ("matches", "messages")

    def __init__(self, matches: Callable[[int, int, Callable[..., None], tuple[Any, ...]], bool]) -> None:
        self.matches = matches
        self.messages: list[tuple[Stream, Callable[..., None], tuple[Any, ...]]] = []


class Network:
    """Delivers by calling; `loss` is the chance of a message to break its connection.

    `blocked` holds the (source, target) pairs that hear nothing of each other, one way each. Nodes that are paused get
    their messages when they wake; a killed node's never arrive, what it had sent still does.
    """

    def __init__(
        self, kernel: Kernel, *, delay: float = 0.001, loss: float = 0.0, stalls: float = 0.0, steady: bool = False
    ) -> None:
        self._kernel = kernel
        self._random: Random = kernel.stream("network")
        self._connections: dict[int, dict[Connection, None]] = {}
        self._paused: dict[int, float] = {}
        self.delay = delay
        self.loss = loss
        self.stalls = stalls
        self.steady = steady
        """Every delay is the same: closer to FIFO, for scripts and for shrinking."""
        self.blocked: set[tuple[int, int]] = set()
        self.holds: list[Hold] = []
        self.sent = 0
        self.lost = 0

    def connect(self, source: int, target: int) -> Connection:
        """A new connection. It opens at once; that it leads nowhere shows by the silence."""
        connection = Connection(source, target)
        self._connections.setdefault(source, {})[connection] = None
        self._connections.setdefault(target, {})[connection] = None
        return connection

    def send(self, stream: Stream, action: Callable[..., None], *arguments: Any) -> None:
        """Call `action(*arguments)` at the target when the message arrives there."""
        self.sent += 1
        if not stream.is_open or (self.blocked and (stream.source, stream.target) in self.blocked):
            stream.is_open = False
            self.lost += 1
            return
        for hold in self.holds:
            if hold.matches(stream.source, stream.target, action, arguments):
                hold.messages.append((stream, action, arguments))
                return
        delay, random = self.delay, self._random.random
        if not self.steady:
            delay *= 0.5 + random()
        if self.loss or self.stalls:
            draw = random()
            if draw < self.loss:
                stream.is_open = False
                self.lost += 1
                return
            if draw < self.loss + self.stalls:
                delay += random() * STALL_SECONDS_MAX
        kernel = self._kernel
        arrival = kernel.now + delay
        if arrival < stream.last_arrival:
            arrival = stream.last_arrival
        stream.last_arrival = arrival
        kernel.at(arrival, self._arrive, stream, action, arguments)

    def _arrive(self, stream: Stream, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if self._kernel.now >= stream.ends_at or (self.blocked and (stream.source, stream.target) in self.blocked):
            stream.is_open = False
            self.lost += 1
            return
        if self._paused:
            wakes_at = self._paused.get(stream.target, 0.0)
            if wakes_at > self._kernel.now:
                self._kernel.at(wakes_at, self._arrive, stream, action, arguments)
                return
        action(*arguments)

    # ------------------------------------------------------------------ faults

    def close(self, connection: Connection) -> None:
        """Its opener gives it up: nothing more is sent or heard by it; what was sent before still arrives."""
        connection.request.is_open = False
        connection.response.is_open = False
        connection.response.ends_at = self._kernel.now
        for node in (connection.request.source, connection.request.target):
            self._connections.get(node, {}).pop(connection, None)

    def kill(self, node: int) -> None:
        """A process is gone: what others sent it is lost, what it sent is on its way."""
        for connection in self._connections.pop(node, {}):
            for stream in (connection.request, connection.response):
                stream.is_open = False
                if stream.target == node:
                    stream.ends_at = self._kernel.now
            other = connection.request.target if connection.request.source == node else connection.request.source
            self._connections.get(other, {}).pop(connection, None)
        self._paused.pop(node, None)

    def pause(self, node: int, until: float) -> None:
        """A process is stopped: what arrives waits in its sockets."""
        self._paused[node] = until

    def block(self, sources: set[int], targets: set[int], *, both_ways: bool = True) -> None:
        """Cut one group off another."""
        for source in sources:
            for target in targets:
                if source != target:
                    self.blocked.add((source, target))
                    if both_ways:
                        self.blocked.add((target, source))

    def release(self, hold: Hold, *, deliver: bool = True) -> None:
        """Hold no more; what was held arrives late, or never."""
        self.holds.remove(hold)
        for stream, action, arguments in hold.messages:
            if deliver:
                self.deliver(stream, action, arguments)
            else:
                stream.is_open = False
                self.lost += 1

    def deliver(self, stream: Stream, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        """A message that was held arrives after all."""
        self._kernel.after(self.delay, self._arrive, stream, action, arguments)

    def heal(self) -> None:
        """Everybody hears everybody; broken connections stay broken."""
        self.blocked.clear()
