"""The Fetch of followers by hand, one version: the request that they send and the answer that they read.

`wire.fetch` is the other side. A follower sends one such request for every answer it appends, so its cost is that of
replication. Records are views of the frame. Property-tested against `wire.messages.fetch`.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final

from librt.strings import (
    BytesWriter,
    read_i16_be,
    read_i32_be,
    read_i64_be,
    write_i16_be,
    write_i32_be,
    write_i64_be,
)

from hightide.errors import ProtocolError
from hightide.types import NO_OFFSET
from hightide.wire.compact import MALFORMED, compact_count, compact_length, skip_tags, uuid
from hightide.wire.framing import Frame, head_of_frame
from hightide.wire.primitives import Reader, append_unsigned_varint

FETCH: Final = 1
VERSION: Final = 17  # the first that carries our session's durability

_unpack_head: Final = Struct(">ihi").unpack_from
_unpack_answer: Final = Struct(">ihqqq").unpack_from
_unpack_diverging: Final = Struct(">iq").unpack_from
_CORRELATION_BYTES: Final = 4
_HEAD_BYTES: Final = 10
_ANSWER_BYTES: Final = 30
_PREFERRED_REPLICA_BYTES: Final = 4
_ABORTED_BYTES: Final = 16
_TAG_10000: Final = b"\x90\x4e"  # as a varint: in a partition R20's horizon, in a request the durability of R25
_SINGLE_BYTES_MIN: Final = 72  # an answer about one partition without records


Listed = tuple[int, int, int, int, int, int]
"""What is asked of a partition: its index, leader epoch, fetch offset, epoch before it, log start and, for R20, the
tombstone horizon, -1 for a log that never was compacted."""


class Answer:
    """What the leader says of one partition. `diverging`: (epoch, end)."""

    __slots__ = ("diverging", "error_code", "high_watermark", "log_start", "partition", "records", "topic_id")

    def __init__(
        self,
        topic_id: bytes,
        partition: int,
        error_code: int,
        high_watermark: int,
        log_start: int,
        records: memoryview | None,
        diverging: tuple[int, int] | None,
    ) -> None:
        self.topic_id = topic_id
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.log_start = log_start
        self.records = records
        self.diverging = diverging


class Answers:
    """What the leader says."""

    __slots__ = ("error_code", "partitions", "session_id")

    def __init__(self, error_code: int, session_id: int, partitions: list[Answer]) -> None:
        self.error_code = error_code
        self.session_id = session_id
        self.partitions = partitions


def encode_request(
    correlation_id: int,
    client_id: bytes,
    replica: tuple[int, int],
    limits: tuple[int, int, int],
    session: tuple[int, int],
    listed: Sequence[tuple[bytes, Sequence[Listed]]],
    partition_bytes_max: int,
    forgotten: Sequence[tuple[bytes, int]],
    durability: int,
) -> bytes:
    """The whole frame of a request of `replica` (id, epoch) within `limits` (wait, least and most bytes) in a session
    (id, epoch)."""
    out = BytesWriter()
    write_i16_be(out, FETCH)
    write_i16_be(out, VERSION)
    write_i32_be(out, correlation_id)
    write_i16_be(out, len(client_id))
    out.write(client_id)
    out.append(0)
    wait_ms, bytes_min, bytes_max = limits
    write_i32_be(out, wait_ms)
    write_i32_be(out, bytes_min)
    write_i32_be(out, bytes_max)
    out.append(0)
    session_id, session_epoch = session
    write_i32_be(out, session_id)
    write_i32_be(out, session_epoch)
    append_unsigned_varint(out, len(listed) + 1)
    for topic_id, partitions in listed:
        out.write(topic_id)
        append_unsigned_varint(out, len(partitions) + 1)
        for index, leader_epoch, fetch_offset, last_epoch, log_start, horizon in partitions:
            write_i32_be(out, index)
            write_i32_be(out, leader_epoch)
            write_i64_be(out, fetch_offset)
            write_i32_be(out, last_epoch)
            write_i64_be(out, log_start)
            write_i32_be(out, partition_bytes_max)
            if horizon == NO_OFFSET:
                out.append(0)
            else:
                out.write(b"\1" + _TAG_10000 + b"\x08")
                write_i64_be(out, horizon)
        out.append(0)
    append_unsigned_varint(out, len(forgotten) + 1)
    for topic_id, index in forgotten:
        out.write(topic_id)
        out.append(2)
        write_i32_be(out, index)
        out.append(0)
    # No rack; two tags: 1, of 13 bytes, the replica, its epoch and no tags of its own; and the durability.
    out.write(b"\1\2\1\x0d")
    replica_id, replica_epoch = replica
    write_i32_be(out, replica_id)
    write_i64_be(out, replica_epoch)
    out.write(b"\0" + _TAG_10000 + b"\1")
    out.append(durability & 0xFF)
    frame = out.getvalue()
    return len(frame).to_bytes(4, "big") + frame


def decode_answers(data: Frame) -> Answers:
    """The answer in a frame, behind its header; ProtocolError for anything else."""
    frame = memoryview(data)
    try:
        single = _decode_single(data, head_of_frame(data))
        if single is not None:
            return single
        position = skip_tags(frame, _CORRELATION_BYTES)
        _, error_code, session_id = _unpack_head(frame, position)
        topic_count, position = compact_count(frame, position + _HEAD_BYTES)
        answers: list[Answer] = []
        for _ in range(topic_count):
            topic_id, position = uuid(frame, position)
            count, position = compact_count(frame, position)
            for _ in range(count):
                answer, position = _read_answer(frame, position, topic_id)
                answers.append(answer)
            position = skip_tags(frame, position)
        position = skip_tags(frame, position)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Fetch answer: {error}") from None
    if position != len(frame):
        raise ProtocolError(f"{len(frame) - position} bytes after the end of a Fetch answer")
    return Answers(error_code, session_id, answers)


def _decode_single(data: Frame, head: bytes) -> Answers | None:
    """The most common answer, one partition without tags, without a call for each number; None for others."""
    size = len(data)
    if size < _SINGLE_BYTES_MIN or len(head) < _SINGLE_BYTES_MIN:
        return None
    # Counts and lengths travel plus one. No tags in the header, one topic, one partition, no aborted transactions.
    if head[4] or head[15] != 2 or head[32] != 2 or head[63] > 1:
        return None
    position, shift, length = 68, 7, head[68] & 0x7F
    while head[position] > 0x7F and shift < 35:
        position += 1
        length |= (head[position] & 0x7F) << shift
        shift += 7
    start = position + 1
    end = start + length - 1 if length else start
    if end + 3 != size or bytes(data[end:]) != b"\0\0\0":
        return None
    answer = Answer(
        head[16:32],
        read_i32_be(head, 33),
        read_i16_be(head, 37),
        read_i64_be(head, 39),
        read_i64_be(head, 55),
        memoryview(data)[start:end] if end > start else None,
        None,
    )
    return Answers(read_i16_be(head, 9), read_i32_be(head, 11), [answer])


def _read_answer(frame: memoryview, position: int, topic_id: bytes) -> tuple[Answer, int]:
    index, error_code, high_watermark, _, log_start = _unpack_answer(frame, position)
    aborted, position = compact_length(frame, position + _ANSWER_BYTES)
    for _ in range(aborted):
        position = skip_tags(frame, position + _ABORTED_BYTES)
    length, position = compact_length(frame, position + _PREFERRED_REPLICA_BYTES)
    records = None
    if length > 0:
        end = position + length
        if end > len(frame):
            raise ProtocolError(f"{length} bytes of records where {len(frame) - position} are left")
        records = frame[position:end]
        position = end
    diverging = None
    if frame[position] == 0:
        position += 1
    else:
        diverging, position = _read_tags(frame, position)
    return Answer(topic_id, index, error_code, high_watermark, log_start, records, diverging), position


def _read_tags(frame: memoryview, position: int) -> tuple[tuple[int, int] | None, int]:
    diverging = None
    reader = Reader(frame, position)
    for tag, size in reader.read_tags():
        value = reader.read_view(size)
        if tag == 0:
            diverging = _unpack_diverging(value)
    return (None if diverging == (-1, -1) else diverging), reader.position
