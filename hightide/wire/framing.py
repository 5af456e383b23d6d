"""Frames out of a stream: a four-byte length, then that many bytes, parsed where they were received.

One buffer per connection. The runtime receives into `writable()`, reports with `received(n)` and takes frames with
`next_frame()` until that returns None. A small frame is a copy, whose numbers are cheap to read. A longer one is a
writable view of the buffer itself, so a batch is checked, patched and written to its segment without being copied; a
view is good until the next call of `writable()`.

Laws:
- A length is checked against `limit` before anything is allocated for it, and a peer that merely announces a large
  frame gets memory only in proportion to what it has sent.
- The buffer is never resized, which Python forbids while views of it live; it is replaced, and only the head of the
  frame that is still arriving moves over. For frames up to about 1 MiB that happens once at most.
"""

from struct import Struct
from typing import Final, Protocol

from hightide.errors import ProtocolError
from hightide.limits import (
    FRAME_HEAD_BYTES,
    KIB,
    RECEIVE_BUFFER_BYTES_INITIAL,
    RECEIVE_BUFFER_BYTES_MAX,
    SMALL_FRAME_BYTES_MAX,
)

Frame = bytes | memoryview
"""A whole frame without its length: a copy where it is small, else a writable view of the receive buffer."""

LENGTH_BYTES: Final = 4
KEPT_BYTES_MAX: Final = RECEIVE_BUFFER_BYTES_MAX + 64 * KIB  # a batch of 1 MiB comes with a request around it
SMALL_HEAD_BYTES: Final = 16 * KIB  # moving this much is cheaper than another receive into what is left at the end
SHORT_FRAMES_MAX: Final = 8  # in a row, and nobody sends long ones any more
GROWTH: Final = 4  # a larger frame gets four times what it has sent

_LENGTH: Final = Struct(">i")
_unpack_length: Final = _LENGTH.unpack_from


class Room(Protocol):
    """Memory for large frames that connections share."""

    def take(self, count: int) -> bool:
        """Whether that many bytes may be used."""

    def give(self, count: int) -> None:
        """They are not used any more."""


class NoRoomError(Exception):
    """A large frame has to wait for others; ask for `writable()` again later."""


class FrameBuffer:
    """The receive buffer of one connection; `limit` may change at any time, say after login.

    `room`, where it is set, is asked for the whole of a frame before the buffer grows beyond its ordinary size for it.
    A larger buffer is given back with its frame, unless `kept_bytes_max` allows it to wait for the next long one.
    """

    # The bytes [start, end) were received and not yet handed out.
    __slots__ = (
        "_buffer",
        "_end",
        "_filled",
        "_short_frames",
        "_start",
        "_view",
        "kept_bytes_max",
        "limit",
        "room",
        "taken",
    )

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.room: Room | None = None
        self.taken = 0
        self.kept_bytes_max = KEPT_BYTES_MAX
        self._short_frames = 0
        self._buffer = bytearray(RECEIVE_BUFFER_BYTES_INITIAL)
        self._view = memoryview(self._buffer)
        self._start = self._end = 0
        self._filled = False

    def writable(self) -> memoryview:
        """Where to receive next; never empty. Call it only when `next_frame` has returned None. NoRoomError: later."""
        start, end, capacity = self._start, self._end, len(self._buffer)
        if start == end:
            if capacity > KEPT_BYTES_MAX and self._is_outgrown(capacity, end):
                self._replace(RECEIVE_BUFFER_BYTES_INITIAL, 0, 0)
            elif self._filled and capacity < RECEIVE_BUFFER_BYTES_MAX:
                self._replace(capacity * 2, 0, 0)
            else:
                self._start = self._end = 0
            return self._view
        have = end - start
        needed = self._needed(start, end)
        larger = _grow(capacity, needed, have, self._filled)
        if larger > capacity:
            if larger > KEPT_BYTES_MAX and self.room is not None and needed > self.taken:
                if not self.room.take(needed - self.taken):
                    raise NoRoomError
                self.taken = needed
            self._replace(larger, start, end)
        elif start and (start + needed > capacity or have <= SMALL_HEAD_BYTES):
            view = self._view
            view[:have] = view[start:end]
            self._start, self._end = 0, have
        if self._end == len(self._buffer):
            raise BufferError("the buffer is full of whole frames: take them out first")
        return self._view[self._end :]

    def _is_outgrown(self, capacity: int, used: int) -> bool:
        """Whether a buffer that grew for a long frame is given back: at once, or when only short ones follow."""
        self._short_frames = 0 if used > RECEIVE_BUFFER_BYTES_INITIAL else self._short_frames + 1
        return capacity > self.kept_bytes_max or self._short_frames >= SHORT_FRAMES_MAX

    def received(self, count: int) -> None:
        """That many bytes were written to the front of `writable()`."""
        self._end += count
        self._filled = self._end == len(self._buffer)

    def next_frame(self) -> Frame | None:
        """The next whole frame without its length, or None; ProtocolError for a length that is not allowed."""
        start = self._start
        body = start + LENGTH_BYTES
        if body > self._end:
            return None
        (length,) = _unpack_length(self._buffer, start)
        following = body + checked_length(length, self.limit)
        if following > self._end:
            return None
        self._start = following
        frame = self._view[body:following]
        return bytes(frame) if length <= SMALL_FRAME_BYTES_MAX else frame

    def put(self, data: bytes) -> None:
        """Take what was received elsewhere, no more than a small frame, into an empty buffer."""
        count = len(data)
        self.writable()[:count] = data
        self.received(count)

    def shrink(self) -> None:
        """Give a grown buffer back; for a connection that has been idle. Does nothing while bytes wait in it."""
        if self._start == self._end and len(self._buffer) > RECEIVE_BUFFER_BYTES_INITIAL:
            self._replace(RECEIVE_BUFFER_BYTES_INITIAL, 0, 0)

    def release(self) -> None:
        """The connection is closed: others may have its room. Idempotent."""
        if self.taken and self.room is not None:
            taken, self.taken = self.taken, 0
            self.room.give(taken)

    @property
    def capacity(self) -> int:
        """Bytes held for this connection."""
        return len(self._buffer)

    @property
    def pending(self) -> int:
        """Bytes received and not yet handed out."""
        return self._end - self._start

    @property
    def missing(self) -> int:
        """Bytes of the frame that is arriving which are still to come."""
        start, end = self._start, self._end
        return self._needed(start, end) - (end - start) if start != end else 0

    def _needed(self, start: int, end: int) -> int:
        """Bytes from `start` to the end of the frame that is arriving, as far as that is known."""
        if end - start < LENGTH_BYTES:
            return LENGTH_BYTES
        (length,) = _unpack_length(self._buffer, start)
        # A forbidden length gets nothing: next_frame refuses it.
        return LENGTH_BYTES + int(length) if 0 <= length <= self.limit else LENGTH_BYTES

    def _replace(self, capacity: int, start: int, end: int) -> None:
        buffer = bytearray(capacity)
        view = memoryview(buffer)
        if start != end:
            view[: end - start] = self._view[start:end]
        self._buffer, self._view = buffer, view
        self._start, self._end = 0, end - start
        self._filled = False
        if self.taken and capacity <= KEPT_BYTES_MAX:
            self.release()


def begins_with_produce(data: bytes) -> bool:
    """Whether the first of the frames in `data`, lengths included, is a Produce request (API key 0)."""
    return len(data) > LENGTH_BYTES + 1 and data[LENGTH_BYTES] == 0 and data[LENGTH_BYTES + 1] == 0


def checked_length(length: int, limit: int) -> int:
    """The length of a frame; ProtocolError for one that is not allowed."""
    if not 0 <= length <= limit:
        raise ProtocolError(f"a frame of {length} bytes where at most {limit} are allowed")
    return length


def head_of_frame(frame: Frame) -> bytes:
    """The first bytes of a frame in a form whose numbers are cheap to read, all of a small one."""
    return frame if isinstance(frame, bytes) else bytes(frame[:FRAME_HEAD_BYTES])


def _grow(capacity: int, needed: int, have: int, filled: bool) -> int:
    """The capacity to go on with, given what the arriving frame needs and has and whether a receive filled us up."""
    if needed > KEPT_BYTES_MAX:
        if capacity < KEPT_BYTES_MAX:
            return KEPT_BYTES_MAX
        return min(needed, GROWTH * have) if have == capacity else capacity
    larger = capacity
    while larger < needed:
        larger *= 2
    if filled and larger == capacity < RECEIVE_BUFFER_BYTES_MAX:
        larger *= 2
    return min(larger, max(KEPT_BYTES_MAX, capacity))
