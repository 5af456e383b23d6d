"""The Fetch of followers by hand, one version: the request that they send and the answer that they read.

`wire.fetch` is the other side. A follower sends one such request for every answer it appends, so its cost is that of
replication. Records are views of the frame. Property-tested against `wire.messages.fetch`.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from hightide.errors import ProtocolError
from hightide.types import NO_OFFSET
from hightide.wire.compact import MALFORMED, compact_count, compact_length, skip_tags, uuid
from hightide.wire.primitives import Reader, write_unsigned_varint

VERSION: Final = 17  # the first that carries our session's durability

_start: Final = Struct(">iiibii").pack
_partition: Final = Struct(">iiqiqi").pack
_index: Final = Struct(">i").pack
_unpack_head: Final = Struct(">ihi").unpack_from
_unpack_answer: Final = Struct(">ihqqq").unpack_from
_unpack_diverging: Final = Struct(">iq").unpack_from
_CORRELATION_BYTES: Final = 4
_HEAD_BYTES: Final = 10
_ANSWER_BYTES: Final = 30
_PREFERRED_REPLICA_BYTES: Final = 4
_ABORTED_BYTES: Final = 16
_TAG_10000: Final = 0x904E  # as a varint: in a partition R20's horizon, in a request the session's durability of R25
_horizon: Final = Struct(">BHBq").pack
_end: Final = Struct(">BBBBiqBHBb").pack


Listed = tuple[int, int, int, int, int, int]
"""What is asked of a partition: its index, leader epoch, fetch offset, epoch before it, log start and, for R20, the
tombstone horizon, -1 for a log that never was compacted."""


class Answer(NamedTuple):
    """What the leader says of one partition. `diverging`: (epoch, end)."""

    topic_id: bytes
    partition: int
    error_code: int
    high_watermark: int
    log_start: int
    records: memoryview | None
    diverging: tuple[int, int] | None


class Answers(NamedTuple):
    """What the leader says."""

    error_code: int
    session_id: int
    partitions: Sequence[Answer]


def encode_request(
    replica: tuple[int, int],
    limits: tuple[int, int, int],
    session: tuple[int, int],
    listed: Sequence[tuple[bytes, Sequence[Listed]]],
    partition_bytes_max: int,
    forgotten: Sequence[tuple[bytes, int]],
    durability: int,
) -> bytearray:
    """A request of `replica` (id, epoch) within `limits` (wait, least and most bytes) in a session (id, epoch)."""
    out = bytearray(_start(*limits, 0, *session))
    write_unsigned_varint(out, len(listed) + 1)
    for topic_id, partitions in listed:
        out += topic_id
        write_unsigned_varint(out, len(partitions) + 1)
        for index, leader_epoch, fetch_offset, last_epoch, log_start, horizon in partitions:
            out += _partition(index, leader_epoch, fetch_offset, last_epoch, log_start, partition_bytes_max)
            if horizon == NO_OFFSET:
                out.append(0)
            else:
                out += _horizon(1, _TAG_10000, 8, horizon)
        out.append(0)
    write_unsigned_varint(out, len(forgotten) + 1)
    for topic_id, index in forgotten:
        out += topic_id + b"\2" + _index(index) + b"\0"
    # No rack; two tags: 1, of 13 bytes, the replica, its epoch and no tags of its own; and the durability.
    out += _end(1, 2, 1, 13, *replica, 0, _TAG_10000, 1, durability)
    return out


def decode_answers(frame: memoryview) -> Answers:
    """The answer in a frame, behind its header; ProtocolError for anything else."""
    try:
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
