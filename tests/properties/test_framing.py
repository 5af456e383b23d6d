"""Whatever the frames and however the stream is cut, the same frames come out and the buffer stays bounded."""

from struct import pack

from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.limits import KIB, MIB
from hightide.wire.framing import KEPT_BYTES_MAX, FrameBuffer

sizes = st.integers(0, 300) | st.integers(60 * KIB, 70 * KIB) | st.integers(MIB - 10, KEPT_BYTES_MAX + 10)


@settings(max_examples=50, deadline=None)
@given(
    lengths=st.lists(sizes, max_size=8),
    pieces=st.lists(st.integers(1, 300_000) | st.integers(1, 10), min_size=1, max_size=20),
    idle=st.sets(st.integers(0, 30)),
    kept=st.sampled_from([KEPT_BYTES_MAX, 4 * KEPT_BYTES_MAX]),
)
def test_frames_come_out_as_they_went_in(lengths: list[int], pieces: list[int], idle: set[int], kept: int) -> None:
    bodies = [bytes([index + 1]) * length for index, length in enumerate(lengths)]
    stream = memoryview(b"".join(pack(">i", len(body)) + body for body in bodies))
    buffer = FrameBuffer(2 * MIB)
    buffer.kept_bytes_max = kept
    found, turn = [], 0
    while stream:
        room = buffer.writable()
        count = min(len(room), pieces[turn % len(pieces)], len(stream))
        room[:count] = stream[:count]
        stream = stream[count:]
        buffer.received(count)
        while (frame := buffer.next_frame()) is not None:
            found.append(bytes(frame))
        if turn in idle:
            buffer.shrink()
        if count < 1000:  # tiny pieces only at first: the rest is as well received faster
            pieces[turn % len(pieces)] *= 2
        turn += 1
        assert buffer.capacity <= 4 * KEPT_BYTES_MAX
    assert found == bodies
    assert buffer.pending == 0
