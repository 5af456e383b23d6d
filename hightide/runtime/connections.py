"""One real connection: a non-blocking socket, ours, on the loop's `add_reader` and `add_writer`.

asyncio's streams cost two to three times as much per request and copy large writes (docs/decisions/0005). Here a
frame is parsed where it was received and a fetch leaves without being copied here (`file_pump`). Everything is bounded:
the receive buffer by the frame limit, all of them together by `LargeRequests`, the output by `OUTPUT_BUFFER_BYTES_MAX`,
a silent reader by `WRITE_DEADLINE_SECONDS`; and whoever does not take its answers is asked for no more requests.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

from librt.strings import read_i32_be

from hightide import limits
from hightide.errors import ProtocolError
from hightide.node.ports import Burst, Part, Receiver
from hightide.runtime.file_pump import PUMPED_BYTES_MIN, FilePump, for_files
from hightide.runtime.large_requests import LargeRequests
from hightide.storage.files import FileSlice
from hightide.wire.framing import LENGTH_BYTES, FrameBuffer, NoRoomError, begins_with_produce, checked_length

log = logging.getLogger("hightide.connections")

WAITING_PARTS_MAX: Final = 256  # answers of one connection that leave together at a turn's end: more would only wait
WAITING_BYTES_MAX: Final = 256 * limits.KIB
WAITING_CONNECTIONS_MAX: Final = 64  # so many peers get their answers together: they work while the next are served
FEW_CONNECTIONS: Final = 2  # in one turn: the first of the next turn is not kept waiting for others
PATIENT_CONNECTIONS_MAX: Final = 2  # answered in one turn: with more there is enough to do, and so have their peers
MSG_MORE: Final = getattr(socket, "MSG_MORE", 0)
SENDFILE_BYTES_PER_TURN: Final = 4 * limits.MIB  # about 1-2 ms of copying: one reader's turn stays short

_CAN_GIVE_WAY: Final = hasattr(os, "sched_yield")


class SocketConnection:
    """`node.ports.Connection` on one non-blocking socket."""

    __slots__ = (
        "_buffer", "_buffered", "_buffered_max", "_closed", "_deadline", "_delivering", "_farewell", "_fd",
        "_finishing", "_gathers", "_large", "_loop", "_low_water", "_out", "_paused", "_reading", "_reads_small",
        "_received", "_receiver", "_sends_soon",
        "_small_reads", "_socket", "_turn", "_writing", "on_closed", "peer",
    )  # fmt: skip

    def __init__(self, turn: "Turn", sock: socket.socket, peer: str, frame_bytes_max: int) -> None:
        self.peer = peer
        self.on_closed: Callable[[], None] | None = None
        self._turn = turn
        self._loop = turn.loop
        self._socket = sock
        self._fd = sock.fileno()
        self._buffer = FrameBuffer(frame_bytes_max)
        self._receiver: Receiver | None = None
        self._out: deque[Part] = deque()
        self._buffered = 0
        self._buffered_max = limits.OUTPUT_BUFFER_BYTES_MAX
        self._deadline: asyncio.TimerHandle | None = None
        self._farewell: asyncio.TimerHandle | None = None
        self._large: LargeRequests | None = None
        self._gathers = False
        self._received = b""
        self._low_water = 1
        self._reads_small = True
        self._small_reads = 0
        self._paused = self._reading = self._writing = self._closed = False
        self._sends_soon = self._delivering = self._finishing = False

    def start(self, receiver: Receiver) -> None:
        """Begin to deliver frames."""
        self._receiver = receiver
        if not self._closed:
            self._read(True)

    def gather(self) -> None:
        """Wait for long frames without looking at their pieces, and keep the memory for the next one.

        Only where the peer is a broker, which sends at once: one that holds small rests back until it hears that the
        former bytes arrived (Nagle) would wait for us, and we for it, until the kernel's timer of 40 ms.
        """
        self._gathers = True
        self._buffer.kept_bytes_max = limits.GATHERED_BUFFER_BYTES_MAX

    # ------------------------------------------------------------------ in

    def _read(self, on: bool) -> None:
        if on != self._reading:
            self._reading = on
            if on:
                self._loop.add_reader(self._fd, self._readable)
            else:
                self._loop.remove_reader(self._fd)

    def _readable(self) -> None:
        if self._received:
            self._turn.deliver()
        if self._buffer.pending:
            self._deliver()  # whole frames that waited come first: the buffer may be full of them
            if self._closed:
                return
            if (self._paused or self._writing) and self._buffer.pending:  # the kernel's buffer takes over
                self._read(False)
                return
        data: bytes | None = None
        try:
            if self._reads_small and not self._buffer.pending:
                data = self._socket.recv(limits.SMALL_FRAME_BYTES_MAX)
                count = len(data)
            else:
                count = self._socket.recv_into(self._buffer.writable())
        except (BlockingIOError, InterruptedError):
            return
        except NoRoomError:
            self._read(False)
            return
        except OSError:
            self.close()
            return
        if count == 0:
            self.close()
            return
        if data is None:
            self._buffer.received(count)
            self._deliver()
        elif self._turn.burst is None or self._gathers:
            self._deliver_small(data)
        else:
            self._received = data
            self._turn.deliver_soon(self, produces=begins_with_produce(data))
        self._choose_read(count)
        if self._gathers and (self._buffer.pending or self._low_water > 1):
            self._await_bytes()

    def _choose_read(self, count: int) -> None:
        """Short requests are received as bytes; whoever sends more gets a buffer, where long ones are used in place."""
        if count >= limits.SMALL_FRAME_BYTES_MAX:
            self._reads_small = False
            self._small_reads = 0
        elif not self._reads_small:
            self._small_reads += 1
            if self._small_reads >= limits.SMALL_READS_MIN:
                self._reads_small = True
                self._buffer.shrink()

    def _await_bytes(self) -> None:
        """Be woken when much of a long frame is here, not for every piece of it."""
        wanted = min(self._buffer.missing, limits.AWAITED_BYTES_MAX)
        if wanted < limits.AWAITED_BYTES_MIN:
            wanted = 1
        if wanted != self._low_water and not self._closed:
            self._low_water = wanted
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVLOWAT, wanted)

    def deliver_now(self) -> None:
        """The turn ends: hand over what it brought."""
        data, self._received = self._received, b""
        if self._closed:
            return
        try:
            self._deliver_small(data)
        except Exception:  # a bug of ours: the others of this turn get what is theirs
            log.exception("closed %s after an unexpected error", self.peer)
            self.close()

    def _deliver_small(self, data: bytes) -> None:
        """Hand over what came in one short receive; what is no whole frame yet, or not wanted yet, is buffered."""
        self._delivering = True
        receiver = self._receiver
        assert receiver is not None
        position, end = 0, len(data)
        try:
            while position + LENGTH_BYTES <= end and not (self._paused or self._writing or self._closed):
                start = position + LENGTH_BYTES
                following = start + checked_length(read_i32_be(data, position), self._buffer.limit)
                if following > end:
                    break
                position = following
                receiver.frame(data[start:following])
        except ProtocolError:
            self.close()
        finally:
            self._delivering = False
        if position < end and not self._closed:
            self._buffer.put(data[position:])

    def _deliver(self) -> None:
        """Hand over whole frames.

        Not to a peer that has not taken its earlier answers: its requests wait until it does, or until the deadline.
        """
        if self._delivering:
            return
        self._delivering = True
        receiver = self._receiver
        assert receiver is not None
        buffer = self._buffer
        try:
            while not (self._paused or self._writing or self._closed):
                frame = buffer.next_frame()
                if frame is None:
                    break
                receiver.frame(frame)
        except ProtocolError:
            self.close()
        finally:
            self._delivering = False
        if buffer.taken:
            buffer.shrink()

    # ------------------------------------------------------------------ requests larger than the buffer

    def share(self, large: LargeRequests) -> None:
        """Take memory for large requests from what all connections have together."""
        self._large = large
        self._buffer.room = self

    def take(self, count: int) -> bool:
        """`wire.framing.Room`."""
        return self._large is None or self._large.take(self, count)

    def give(self, count: int) -> None:
        """`wire.framing.Room`."""
        if self._large is not None:
            self._large.give(self, count)

    @property
    def progress(self) -> int:
        """How much of a request is here; negative while nothing more is wanted of it."""
        return -1 if self._paused or self._writing else self._buffer.pending

    def receive_again(self) -> None:
        """Others have given memory back."""
        if not self._closed:
            self._read(True)

    # ------------------------------------------------------------------ flow

    def pause(self) -> None:
        """Deliver no more frames. The socket is still watched, so that a peer that goes away is noticed."""
        self._paused = True

    def resume(self) -> None:
        """Deliver again, what is already here first and on a later turn of the loop."""
        if self._paused and not self._closed:
            self._paused = False
            self._read(True)
            if self._buffer.pending and not self._delivering:
                self._loop.call_soon(self._deliver_after_resume)

    def _deliver_after_resume(self) -> None:
        if not (self._paused or self._closed):
            self._deliver()

    # ------------------------------------------------------------------ out

    @property
    def is_sending(self) -> bool:
        """Whether something waits for the peer to take it."""
        return bool(self._out)

    def send(self, parts: Sequence[Part]) -> None:
        """Queue the parts; they leave at the end of this turn of the loop, with the answers of other connections."""
        if self._closed or self._finishing:
            _release(parts)
            return
        for part in parts:
            self._out.append(part)
            if not isinstance(part, FileSlice):
                self._buffered += len(part)
        if self._buffered > self._buffered_max:
            self.close()
        elif self._writing:
            return
        elif self._buffered > WAITING_BYTES_MAX or len(self._out) > WAITING_PARTS_MAX:
            self._flush()
        elif not self._sends_soon:
            self._sends_soon = True
            self._turn.send_soon(self)

    def send_now(self) -> None:
        """The turn ends: send what the socket takes."""
        self._sends_soon = False
        if self._out and not self._writing:
            self._flush()

    def _writable(self) -> None:
        """The peer takes bytes again: when it has taken all of them, its next requests are welcome."""
        self._flush()
        if not (self._writing or self._paused or self._closed):
            self._read(True)
            self._deliver()

    def _flush(self) -> None:
        out = self._out
        try:
            while out:
                part = out[0]
                if isinstance(part, FileSlice):
                    if not self._send_slice(part):
                        break
                elif not self._send_bytes(part):
                    break
        except (BlockingIOError, InterruptedError):
            pass
        except OSError:
            self.close()
            return
        self._await_writable(bool(out))
        if not out and self._finishing:
            self._hang_up()

    def _send_bytes(self, part: bytes | bytearray | memoryview) -> bool:
        """True when the whole part left; several small parts leave in one call."""
        out = self._out
        if len(out) > 1 and not isinstance(out[1], FileSlice):
            part = self._join_head()
        sent = self._socket.send(part, MSG_MORE if len(out) > 1 else 0)
        self._buffered -= sent
        if sent == len(part):
            out.popleft()
            return True
        out[0] = memoryview(part)[sent:]
        return False

    def _join_head(self) -> bytes:
        """Merge the run of in-memory parts at the head into one."""
        out = self._out
        run: list[bytes | bytearray | memoryview] = []
        while out:
            part = out[0]
            if isinstance(part, FileSlice):
                break
            run.append(part)
            out.popleft()
        joined = b"".join(run)
        out.appendleft(joined)
        return joined

    def _send_slice(self, part: FileSlice) -> bool:
        """True when the whole slice left; False when the socket or this turn's share is full."""
        share = min(part.length, SENDFILE_BYTES_PER_TURN)
        more = share < part.length or len(self._out) > 1
        sent = self._turn.send_file(self._fd, part.file.fileno(), part.position, share, more=more)
        if sent == 0:  # the file is shorter than promised: the stream can't be continued
            raise OSError("a file ended inside a slice")
        part.position += sent
        part.length -= sent
        if part.length:
            return False
        self._out.popleft()
        part.release()
        return True

    def _await_writable(self, on: bool) -> None:
        if on:
            if self._deadline is not None:
                self._deadline.cancel()
            self._deadline = self._loop.call_later(limits.WRITE_DEADLINE_SECONDS, self.close)
            if not self._writing:
                self._writing = True
                self._loop.add_writer(self._fd, self._writable)
        elif self._writing:
            self._writing = False
            self._loop.remove_writer(self._fd)
            if self._deadline is not None:
                self._deadline.cancel()
                self._deadline = None

    # ------------------------------------------------------------------ end

    def finish(self) -> None:
        """Close once everything queued has left."""
        self._finishing = True
        self.pause()
        if not self._out:
            self._hang_up()

    def _hang_up(self) -> None:
        """Say that nothing more comes, and let the peer hear it: what it still sends is taken and not looked at.

        A socket closed with bytes unread resets the connection, and with that the peer's kernel throws away the answers
        that the peer has not read yet.
        """
        if self._closed or self._farewell is not None:
            return
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError:
            self.close()
            return
        self._farewell = self._loop.call_later(limits.FAREWELL_SECONDS, self.close)
        self._read(False)
        self._reading = True
        self._loop.add_reader(self._fd, self._discard)

    def _discard(self) -> None:
        try:
            if self._socket.recv(limits.FAREWELL_BYTES_PER_TURN):
                return
        except (BlockingIOError, InterruptedError):
            return
        except OSError:
            pass
        self.close()

    def close(self) -> None:
        """Drop the connection now."""
        if self._closed:
            return
        self._closed = True
        self._read(False)
        self._await_writable(False)
        if self._farewell is not None:
            self._farewell.cancel()
        _release(self._out)
        self._out.clear()
        self._socket.close()
        if self._large is not None:
            self._large.forget(self)
            self._buffer.release()
            self._buffer.room = None  # the buffer and we held each other
        # Each holds the other: parted, they and the receive buffer go at once, not when the collector comes by.
        if self.on_closed is not None:
            self.on_closed()
        receiver, self._receiver = self._receiver, None
        if receiver is not None:
            self._loop.call_soon(receiver.closed)


class Turn:
    """What connections received, and the answers they have to send, at the end of this turn of the loop.

    Small requests are handed over together, so that the node can write together what they bring. A peer that waits for
    its answer is woken by it, which costs the sender more than everything else it does for a small request: sent
    together, the answers find their readers awake. Where few requests come, the first is served at once, and its sender
    is asked to run before others are served: on a machine with few cores it often waits for the one that its request
    woke us on, while we serve a consumer of the same record.
    """

    __slots__ = ("_asking", "_count", "_is_due", "_is_quiet", "_producing", "_pump", "_sending", "burst", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.burst: Burst | None = None
        self._producing: list[SocketConnection] = []
        self._asking: list[SocketConnection] = []
        self._sending: list[SocketConnection] = []
        self._pump: FilePump | None = for_files()
        self._count = 0
        self._is_due = False
        self._is_quiet = True

    def send_file(self, socket_fd: int, file_fd: int, position: int, length: int, *, more: bool) -> int:
        """How many bytes the socket took; 0 where the file ends, BlockingIOError when the socket takes none now.

        `more` follows at once.
        """
        if self._pump is not None and length >= PUMPED_BYTES_MIN:
            return self._pump.send(socket_fd, file_fd, position, length, more=more)
        return os.sendfile(socket_fd, file_fd, position, length)

    def deliver_soon(self, connection: SocketConnection, *, produces: bool) -> None:
        """Hand over what it received: at once where few come, else when this turn ends or when enough wait."""
        waiting = self._producing if produces else self._asking
        waiting.append(connection)
        if not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._end)
            if self._is_quiet:
                self.deliver()
                self._send_patiently()
        elif len(waiting) >= WAITING_CONNECTIONS_MAX:
            self.deliver()
            self._send()

    def send_soon(self, connection: SocketConnection) -> None:
        """Send its answers when this turn ends, or when enough wait."""
        self._sending.append(connection)
        if not self._is_due:
            self._is_due = True
            self.loop.call_soon(self._end)
        elif len(self._sending) >= WAITING_CONNECTIONS_MAX:
            self._send()

    def _end(self) -> None:
        try:
            if self._producing or self._asking:
                self.deliver()
            if self._count:
                self._is_quiet = self._count <= FEW_CONNECTIONS
                self._count = 0
            self._send_patiently()
            if self.burst is not None:
                self.burst.wake()
        finally:
            self._is_due = False  # not before: the answers given just now leave with this end, and need no other
            self._send()

    def deliver(self) -> None:
        """Hand over what was received so far. Whoever asks for records gets those that came in the same turn."""
        burst = self.burst
        assert burst is not None
        producing, self._producing = self._producing, []
        asking, self._asking = self._asking, []
        self._count += len(producing) + len(asking)
        burst.begin()
        for connection in producing:
            connection.deliver_now()
        burst.settle()
        for connection in asking:
            connection.deliver_now()
        burst.end()

    def _send_patiently(self) -> None:
        """Send, and let those who get few answers go first."""
        answered = len(self._sending)
        self._send()
        if _CAN_GIVE_WAY and 0 < answered <= PATIENT_CONNECTIONS_MAX:
            os.sched_yield()  # returns at once where nobody waits for this core

    def _send(self) -> None:
        sending, self._sending = self._sending, []
        for connection in sending:
            connection.send_now()


def _release(parts: Sequence[Part] | deque[Part]) -> None:
    for part in parts:
        if isinstance(part, FileSlice):
            part.release()
