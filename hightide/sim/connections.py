"""Connections as TCP gives them: bytes in order in each direction, in pieces, late, or for a while not at all.

A `Pipe` is one direction: what was sent and has not arrived. A `SimulatedConnection` is one end: the same behaviour as
`runtime.connections.SocketConnection`, frame buffer, corking, limits and write deadline included, on our own kernel.
Laws: a direction never reorders; a cut link delays and loses nothing by itself; a process that died by kill closes its
connections, a machine that lost power says nothing, and who writes to it later is reset once it is up again.
"""

from collections import deque
from collections.abc import Sequence
from enum import Enum
from typing import TYPE_CHECKING

from hightide import limits
from hightide.errors import ProtocolError
from hightide.node.ports import Part, Receiver
from hightide.sim.links import Link
from hightide.storage.files import FileSlice
from hightide.wire.framing import FrameBuffer, begins_with_produce

if TYPE_CHECKING:
    from hightide.sim.loop import SimulatedHandle, SimulatedLoop
    from hightide.sim.network import SimulatedNetwork
    from hightide.sim.turns import Turn

WINDOW_BYTES = 256 * limits.KIB  # what a kernel takes from a sender before the other side has read
SHORT_READ_CHANCE = 0.02  # how often a read ends in the middle of what has arrived


class Signal(Enum):
    """What travels besides bytes."""

    END = "end"
    RESET = "reset"


class EndState(Enum):
    """One end of a connection in its kernel."""

    OPEN = "open"
    CLOSED = "closed"
    """The process is done with it: whoever still sends is reset."""
    GONE = "gone"
    """The machine forgot it without a word."""


class Pipe:
    """One direction. `target` is the end that reads; `outstanding` counts bytes sent and not yet read."""

    __slots__ = (
        "_in_flight",
        "_is_expected",
        "_last_arrival",
        "_network",
        "is_abandoned",
        "link",
        "outstanding",
        "target",
        "window_stalls",
    )

    def __init__(self, network: "SimulatedNetwork", link: Link) -> None:
        self.link = link
        self.outstanding = 0
        self.window_stalls = False
        self.is_abandoned = False
        """The sender has no power: what it sent may still arrive, but nobody sends it again."""
        self.target: SimulatedConnection
        self._network = network
        self._in_flight: deque[tuple[float, bytes | Signal]] = deque()
        self._last_arrival = 0.0
        self._is_expected = False

    def send(self, what: bytes | Signal) -> None:
        """Let it travel; it arrives behind everything sent before."""
        network = self._network
        arrival = network.now + self.link.delay()
        if self.link.held_seconds and isinstance(what, bytes):
            # After the length a request has its api key, an answer the upper half of a small number.
            arrival += self.link.held_seconds.get(int.from_bytes(what[4:6]), 0.0)
        if arrival < self._last_arrival:
            arrival = self._last_arrival
        self._last_arrival = arrival
        self._in_flight.append((arrival, what))
        if isinstance(what, bytes):
            self.outstanding += len(what)
        if not self._is_expected:
            self._expect(arrival)

    def _expect(self, arrival: float) -> None:
        self._is_expected = True
        network = self._network
        network.loop.after(arrival - network.now, self._arrive)

    def _arrive(self) -> None:
        self._is_expected = False
        network, in_flight = self._network, self._in_flight
        if self.link.is_cut or not network.is_up(self.target.host):
            if self.is_abandoned:
                in_flight.clear()
            return  # TCP repeats it: `resume` is called when somebody can hear it again
        now = network.now
        while in_flight and in_flight[0][0] <= now:
            what = in_flight.popleft()[1]
            network.delivered(self, what)
            self.target.arrived(what)
        if in_flight:
            self._expect(in_flight[0][0])

    def resume(self) -> None:
        """The link or the host is back."""
        if self._in_flight and not self._is_expected:
            self._expect(self._network.now + self.link.delay())

    def reopen(self) -> None:
        """The way back is good again: the sender hears of what was read meanwhile."""
        if self.window_stalls:
            self.window_stalls = False
            self.target.other.may_write()

    def drop(self) -> None:
        """Nobody will ever read it."""
        self._in_flight.clear()


class SimulatedConnection:
    """`node.ports.Connection` of one end."""

    def __init__(
        self, network: "SimulatedNetwork", loop: "SimulatedLoop", host: str, peer: str, out: Pipe, back: Pipe
    ) -> None:
        self.peer = peer
        self.host = host
        self.loop = loop
        self.state = EndState.OPEN
        self.other: SimulatedConnection
        self._network = network
        self.pipe = out
        self._back = back
        back.target = self
        self._buffer = FrameBuffer(limits.FRAME_BYTES_MAX)
        self._received: deque[bytes | Signal] = deque()
        self._receiver: Receiver | None = None
        self._turn: Turn | None = None
        self._out: deque[Part] = deque()
        self._buffered = 0
        self._deadline: SimulatedHandle | None = None
        self._is_reading_due = self._is_reset = False
        self._paused = self._closed = self._blocked = False
        self._corked = self._delivering = self._finishing = False

    def start(self, receiver: Receiver, turn: "Turn | None" = None) -> None:
        """Begin to deliver frames, each when it comes or with those that others bring in the same turn."""
        self._receiver = receiver
        self._turn = turn
        self._read_soon()

    # ------------------------------------------------------------------ in

    def arrived(self, what: bytes | Signal) -> None:
        """The kernel takes what has come over the wire."""
        if self.state is not EndState.OPEN:
            if isinstance(what, bytes):
                self.pipe.send(Signal.RESET)
            return
        if what is Signal.RESET:
            self._received.clear()
            self._is_reset = True
        self._received.append(what)
        self._read_soon()

    def _read_soon(self) -> None:
        if self._received and self._receiver is not None and not (self._is_reading_due or self._closed):
            if self._paused and self._buffer.pending:  # more than the next request: the kernel keeps it
                return
            self._is_reading_due = True
            if self._turn is None:
                self.loop.call_soon(self.readable)
            else:
                self._turn.read_soon(self)

    @property
    def brings_records(self) -> bool:
        """Whether a Produce request is what comes next."""
        if self._buffer.pending or not self._received:
            return False
        first = self._received[0]
        return isinstance(first, bytes) and begins_with_produce(first)

    def readable(self) -> None:
        """The process looks at what its kernel has for it."""
        self._is_reading_due = False
        if self._closed or not self._received or (self._paused and self._buffer.pending):
            return
        what = self._received.popleft()
        if isinstance(what, Signal):
            self.close()
            return
        self._take(what)
        self._deliver()
        self._read_soon()

    def _take(self, data: bytes) -> None:
        """Read as much as fits, sometimes less."""
        space = self._buffer.writable()
        count = min(len(space), len(data))
        if self._network.draw() < SHORT_READ_CHANCE and count > 1:
            count = 1 + int(self._network.draw() * (count - 1))
        space[:count] = data[:count]
        self._buffer.received(count)
        if count < len(data):
            self._received.appendleft(data[count:])
        self._back.outstanding -= count
        if self.other._blocked:
            self._network.window_opened(self._back, self.pipe.link)

    def _deliver(self) -> None:
        """Hand over whole frames; answers given meanwhile leave together at the end."""
        if self._delivering:
            return
        self._delivering = self._corked = True
        receiver, buffer = self._receiver, self._buffer
        assert receiver is not None
        try:
            while not (self._paused or self._closed):
                frame = buffer.next_frame()
                if frame is None:
                    break
                receiver.frame(frame)
        except ProtocolError:
            self.close()
        finally:
            self._delivering = self._corked = False
        if self._out and not self._blocked:
            self._flush()

    def pause(self) -> None:
        """Deliver no more frames."""
        self._paused = True

    def resume(self) -> None:
        """Deliver again, what is already here first and on a later turn of the loop."""
        if self._paused and not self._closed:
            self._paused = False
            if self._buffer.pending and not self._delivering:
                self.loop.call_soon(self._deliver_after_resume)
            else:
                self._read_soon()

    def _deliver_after_resume(self) -> None:
        if not (self._paused or self._closed):
            self._deliver()
            self._read_soon()

    # ------------------------------------------------------------------ out

    @property
    def is_sending(self) -> bool:
        """Whether something waits for the kernel to take it."""
        return bool(self._out)

    def send(self, parts: Sequence[Part]) -> None:
        """Queue the parts and send what the kernel takes at once."""
        if self._closed or self._finishing or self.loop.is_dead:
            _release(parts)
            return
        for part in parts:
            self._out.append(part)
            if not isinstance(part, FileSlice):
                self._buffered += len(part)
        if self._buffered > limits.OUTPUT_BUFFER_BYTES_MAX:
            self.close()
        elif not (self._corked or self._blocked):
            self._flush()

    def may_write(self) -> None:
        """The other side has read, and the kernel takes more."""
        if self.state is EndState.OPEN:
            self.loop.call_soon(self._writable)

    def _writable(self) -> None:
        if self._blocked and not self._closed:
            self._flush()

    def _flush(self) -> None:
        if self._is_reset:
            self.close()
            return
        pieces: list[bytes] = []
        room = WINDOW_BYTES - self.pipe.outstanding
        try:
            while self._out and room > 0:
                piece = self._next_piece(room)
                room -= len(piece)
                pieces.append(piece)
        except OSError:
            self.close()
            return
        if pieces:
            self.pipe.send(b"".join(pieces))
        self._await_writable(bool(self._out))
        if not self._out and self._finishing:
            self.close()

    def _next_piece(self, room: int) -> bytes:
        """Up to `room` bytes from the head of the queue; files are read now, as sendfile does."""
        part = self._out[0]
        if isinstance(part, FileSlice):
            piece = part.file.read_at(part.position, min(part.length, room))
            if not piece:
                raise OSError("a file ended inside a slice")
            part.position += len(piece)
            part.length -= len(piece)
            if not part.length:
                self._out.popleft()
                part.release()
            return piece
        piece = bytes(part[:room])
        self._buffered -= len(piece)
        if len(piece) == len(part):
            self._out.popleft()
        else:
            self._out[0] = memoryview(part)[len(piece) :]
        return piece

    def _await_writable(self, on: bool) -> None:
        self._blocked = on
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None
        if on:
            self._deadline = self.loop.call_later(limits.WRITE_DEADLINE_SECONDS, self.close)

    # ------------------------------------------------------------------ end

    def finish(self) -> None:
        """Close once everything queued has left."""
        self._finishing = True
        self.pause()
        if not self._out:
            self.close()

    def close(self) -> None:
        """Drop the connection now."""
        if self._closed or self.loop.is_dead:
            return
        self._let_go()
        if self._receiver is not None:
            self.loop.call_soon(self._receiver.closed)

    def _let_go(self) -> None:
        self._closed = True
        self._await_writable(False)
        _release(self._out)
        self._out.clear()
        if self.state is EndState.OPEN:
            self.state = EndState.CLOSED
            unread = any(isinstance(each, bytes) for each in self._received)
            if not self._is_reset:
                self.pipe.send(Signal.RESET if unread else Signal.END)
        self._received.clear()
        self._network.ended(self)

    def killed(self) -> None:
        """The process died, and its kernel closes what it had open."""
        if self.state is EndState.OPEN and not self._closed:
            self._out.clear()
            self._let_go()

    def unplugged(self) -> None:
        """The machine is off: no word to anybody, and what is on its way to it is lost."""
        self.state = EndState.GONE
        self.pipe.is_abandoned = True
        self._closed = True
        self._out.clear()
        self._received.clear()
        self._network.ended(self)

    def reset(self) -> None:
        """Something between the two broke the connection, and both ends hear of it."""
        self.arrived(Signal.RESET)


def _release(parts: Sequence[Part] | deque[Part]) -> None:
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()
