"""Frames out of a stream, whatever the pieces it arrives in."""

from collections.abc import Iterator
from struct import pack

import pytest

from hightide.errors import ProtocolError
from hightide.limits import (
    KIB,
    MIB,
    RECEIVE_BUFFER_BYTES_INITIAL,
    RECEIVE_BUFFER_BYTES_MAX,
    SMALL_FRAME_BYTES_MAX,
)
from hightide.wire.framing import KEPT_BYTES_MAX, SHORT_FRAMES_MAX, FrameBuffer, NoRoomError


def framed(*bodies: bytes) -> bytes:
    return b"".join(pack(">i", len(body)) + body for body in bodies)


def receive(buffer: FrameBuffer, stream: bytes, piece: int = 1 << 30) -> Iterator[bytes]:
    """Feed a stream in pieces, as recv_into would, and take out every frame as it becomes whole."""
    while stream:
        room = buffer.writable()
        assert len(room) > 0
        count = min(len(room), len(stream), piece)
        room[:count] = stream[:count]
        stream = stream[count:]
        buffer.received(count)
        while (frame := buffer.next_frame()) is not None:
            yield bytes(frame)


def test_nothing_received_is_no_frame() -> None:
    assert FrameBuffer(100).next_frame() is None


@pytest.mark.parametrize("piece", [1, 2, 3, 4, 5, 7, 1000])
def test_frames_survive_any_cutting(piece: int) -> None:
    bodies = [b"", b"a", b"", b"bc", b"x" * 200, b"last"]
    assert list(receive(FrameBuffer(1000), framed(*bodies), piece)) == bodies


def test_many_small_frames_stay_in_order_across_the_end_of_the_buffer() -> None:
    bodies = [b"%d" % number * (number % 50) for number in range(20_000)]
    assert list(receive(FrameBuffer(1000), framed(*bodies), 50_000)) == bodies


def test_a_long_frame_is_a_writable_view_of_the_buffer() -> None:
    buffer = FrameBuffer(2 * SMALL_FRAME_BYTES_MAX)
    room = buffer.writable()
    stream = framed(b"a" * (SMALL_FRAME_BYTES_MAX + 1))
    room[: len(stream)] = stream
    buffer.received(len(stream))
    frame = buffer.next_frame()
    assert isinstance(frame, memoryview)
    frame[0] = ord("A")
    assert bytes(room[4:8]) == b"Aaaa"


def test_a_small_frame_is_a_copy() -> None:
    buffer = FrameBuffer(2 * SMALL_FRAME_BYTES_MAX)
    stream = framed(b"a" * SMALL_FRAME_BYTES_MAX)
    room = buffer.writable()
    room[: len(stream)] = stream
    buffer.received(len(stream))
    frame = buffer.next_frame()
    room[4] = ord("A")
    assert frame == b"a" * SMALL_FRAME_BYTES_MAX


@pytest.mark.parametrize("size", [1, 3, 4, 5, 100, SMALL_FRAME_BYTES_MAX])
def test_what_was_received_elsewhere_goes_on_in_the_buffer(size: int) -> None:
    stream = framed(b"b" * SMALL_FRAME_BYTES_MAX, b"following")
    buffer = FrameBuffer(2 * SMALL_FRAME_BYTES_MAX)
    buffer.put(stream[:size])
    assert buffer.next_frame() is None
    assert list(receive(buffer, stream[size:])) == [b"b" * SMALL_FRAME_BYTES_MAX, b"following"]


def test_frames_taken_together_are_good_until_the_next_receive() -> None:
    buffer = FrameBuffer(100)
    stream = framed(b"one", b"two")
    buffer.writable()[: len(stream)] = stream
    buffer.received(len(stream))
    first, second = buffer.next_frame(), buffer.next_frame()
    assert first is not None
    assert second is not None
    assert bytes(first) == b"one"
    assert bytes(second) == b"two"


@pytest.mark.parametrize("length", [-1, -(2**31), 1001, 2**31 - 1])
def test_a_forbidden_length_is_refused_before_anything_is_allocated(length: int) -> None:
    buffer = FrameBuffer(1000)
    buffer.writable()[:4] = pack(">i", length)
    buffer.received(4)
    capacity = buffer.capacity
    with pytest.raises(ProtocolError, match="at most 1000"):
        buffer.next_frame()
    assert len(buffer.writable()) <= capacity
    assert buffer.capacity == capacity


def test_the_limit_may_rise_after_login() -> None:
    buffer = FrameBuffer(10)
    assert list(receive(buffer, framed(b"x" * 10))) == [b"x" * 10]
    buffer.limit = 11
    assert list(receive(buffer, framed(b"x" * 11))) == [b"x" * 11]


@pytest.mark.parametrize("size", [RECEIVE_BUFFER_BYTES_INITIAL, 300 * KIB, MIB, KEPT_BYTES_MAX, 5 * MIB + 3])
def test_a_large_frame_arrives_whole_between_small_ones(size: int) -> None:
    buffer = FrameBuffer(10 * MIB)
    bodies = [b"before", bytes(range(256)) * (size // 256) + bytes(size % 256), b"after"]
    assert list(receive(buffer, framed(*bodies), 100_000)) == bodies


def test_announcing_a_large_frame_gets_memory_only_as_it_is_sent() -> None:
    buffer = FrameBuffer(100 * MIB)
    list(receive(buffer, pack(">i", 100 * MIB) + bytes(100)))
    buffer.writable()
    assert buffer.capacity <= KEPT_BYTES_MAX
    list(receive(buffer, bytes(3 * MIB)))
    buffer.writable()
    assert buffer.capacity <= 4 * KEPT_BYTES_MAX


def test_a_frame_of_one_mebibyte_moves_over_once() -> None:
    buffer = FrameBuffer(100 * MIB)
    capacities = set()
    stream = framed(bytes(MIB))
    while stream:
        room = buffer.writable()
        capacities.add(buffer.capacity)
        count = min(len(room), 10_000, len(stream))
        room[:count] = stream[:count]
        buffer.received(count)
        stream = stream[count:]
        if buffer.next_frame() is not None:
            break
    assert len(capacities) == 2


def test_a_buffer_grown_for_one_frame_is_given_back() -> None:
    buffer = FrameBuffer(100 * MIB)
    assert [len(frame) for frame in receive(buffer, framed(bytes(5 * MIB)))] == [5 * MIB]
    buffer.writable()
    assert buffer.capacity == RECEIVE_BUFFER_BYTES_INITIAL


def test_a_kept_buffer_waits_for_the_next_long_frame_and_goes_when_none_comes() -> None:
    buffer = FrameBuffer(100 * MIB)
    buffer.kept_bytes_max = 6 * MIB
    for _ in range(3):
        assert [len(frame) for frame in receive(buffer, framed(bytes(5 * MIB)))] == [5 * MIB]
        buffer.writable()
        assert buffer.capacity >= 5 * MIB
        for _ in range(SHORT_FRAMES_MAX - 2):
            assert list(receive(buffer, framed(b"short"))) == [b"short"]
    for _ in range(SHORT_FRAMES_MAX):
        assert list(receive(buffer, framed(b"short"))) == [b"short"]
    buffer.writable()
    assert buffer.capacity == RECEIVE_BUFFER_BYTES_INITIAL
    assert [len(frame) for frame in receive(buffer, framed(bytes(9 * MIB)))] == [9 * MIB]
    buffer.writable()
    assert buffer.capacity == RECEIVE_BUFFER_BYTES_INITIAL, "more than is kept"


def test_a_busy_connection_grows_to_the_bound_and_an_idle_one_shrinks() -> None:
    buffer = FrameBuffer(MIB)
    for _ in receive(buffer, framed(*[bytes(996)] * 10_000)):
        pass
    assert buffer.capacity == RECEIVE_BUFFER_BYTES_MAX
    buffer.shrink()
    assert buffer.capacity == RECEIVE_BUFFER_BYTES_INITIAL


def test_shrinking_keeps_what_waits() -> None:
    buffer = FrameBuffer(MIB)
    stream = framed(bytes(300 * KIB), b"tail")
    assert [len(frame) for frame in receive(buffer, stream[:-2])] == [300 * KIB]
    assert buffer.pending == 6
    buffer.shrink()
    assert list(receive(buffer, stream[-2:])) == [b"tail"]


def test_a_buffer_full_of_whole_frames_says_so() -> None:
    buffer = FrameBuffer(MIB)
    body = bytes(RECEIVE_BUFFER_BYTES_MAX // 4 - 4)
    for _ in receive(buffer, framed(*[bytes(996)] * 10_000)):
        pass
    room = buffer.writable()
    room[: len(room)] = framed(body, body, body, body)
    buffer.received(len(room))
    with pytest.raises(BufferError, match="take them out"):
        buffer.writable()
    assert [len(frame) for frame in iter(buffer.next_frame, None)] == [len(body)] * 4


class Shared:
    """Room for so many bytes."""

    def __init__(self, left: int) -> None:
        self.left = left

    def take(self, count: int) -> bool:
        if count > self.left:
            return False
        self.left -= count
        return True

    def give(self, count: int) -> None:
        self.left += count


def test_a_large_frame_asks_for_all_its_room_once_and_gives_it_back() -> None:
    buffer = FrameBuffer(10 * MIB)
    buffer.room = shared = Shared(4 * MIB)
    body = b"x" * (3 * MIB)
    left = []
    for frame in receive(buffer, framed(b"small", body, b"small"), 64 * KIB):
        left.append(shared.left)
        assert frame in (b"small", body)
    assert left == [4 * MIB, MIB - 4, 4 * MIB]


def test_a_large_frame_without_room_waits_and_goes_on() -> None:
    buffer = FrameBuffer(10 * MIB)
    buffer.room = shared = Shared(0)
    data = framed(b"x" * (2 * MIB))
    with pytest.raises(NoRoomError):
        list(receive(buffer, data))
    assert buffer.capacity <= KEPT_BYTES_MAX
    shared.left = 10 * MIB
    assert [len(frame) for frame in receive(buffer, data[buffer.pending :], 64 * KIB)] == [2 * MIB]
    buffer.release()
    buffer.release()
    assert shared.left == 10 * MIB
