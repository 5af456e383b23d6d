"""Fetch requests and responses by hand, versions 4-18: the hot path out.

A response is a list of parts: what is encoded here, and between it the records as they were given, bytes or a slice of
a file that the runtime sends without reading it. Property-tested against `wire.messages.fetch`.
Versions: 5 adds the log start, 7 sessions (KIP-227), 9 the leader epoch, 11 racks (KIP-392), 12 is flexible and adds
the last fetched epoch (KIP-595), 13 names topics by id, 15 moves the replica into a tag with its epoch (KIP-903),
16 hints at new leaders (KIP-951), 17 carries the directory id (KIP-853), 18 the follower's high watermark (KIP-1166).
One file of some length, so that the layouts of fifteen versions in both directions can be compared on one screen.
"""

from collections.abc import Sequence
from struct import Struct
from typing import Any, Final, Protocol

from librt.strings import BytesWriter, read_i32_be, read_i64_be, write_i16_be, write_i32_be, write_i64_be

from hightide.errors import ProtocolError
from hightide.limits import KIB, PARTITIONS_MAX
from hightide.types import NO_EPOCH, NO_OFFSET, ZERO_UUID
from hightide.wire.compact import (
    MALFORMED,
    classic_count,
    classic_string,
    compact_count,
    compact_string,
    skip_tags,
    spend,
    uuid,
)
from hightide.wire.primitives import (
    INT32,
    Reader,
    append_unsigned_varint,
    write_compact_string,
    write_string,
    write_tagged_fields,
    write_unsigned_varint,
    write_uuid,
)
from hightide.wire.produce import NodeEndpoint, encode_endpoints

VERSIONS: Final = (4, 18)
FLEXIBLE_FROM: Final = 12
TOPIC_IDS_FROM: Final = 13
CONSUMER_ID: Final = -1
NO_HIGH_WATERMARK: Final = 2**63 - 1  # a follower that does not say how far it knows
INLINE_BYTES: Final = 16 * KIB  # records in memory up to here are copied: cheaper than one more part to send

_SESSION_DURABILITY_TAG: Final = 10000
_TOMBSTONE_HORIZON_TAG: Final = 10000
_IN_MEMORY: Final = (bytes, bytearray, memoryview)


class PartitionFetch:
    """What is asked of one partition. `tombstone_horizon`: R20; -1 is a consumer, or a log that never was compacted."""

    __slots__ = (
        "current_leader_epoch",
        "directory_id",
        "fetch_offset",
        "high_watermark",
        "last_fetched_epoch",
        "log_start_offset",
        "max_bytes",
        "partition",
        "tombstone_horizon",
    )

    def __init__(
        self,
        partition: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int = NO_EPOCH,
        last_fetched_epoch: int = NO_EPOCH,
        log_start_offset: int = NO_OFFSET,
        directory_id: bytes = ZERO_UUID,
        high_watermark: int = NO_HIGH_WATERMARK,
        tombstone_horizon: int = NO_OFFSET,
    ) -> None:
        self.partition = partition
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start_offset = log_start_offset
        self.directory_id = directory_id
        self.high_watermark = high_watermark
        self.tombstone_horizon = tombstone_horizon


class Fetch:
    """A decoded request: topics by name, or by id from version 13 on.

    `session_durability`: R25; -1 is a consumer, or Kafka.
    """

    __slots__ = (
        "cluster_id",
        "forgotten",
        "isolation_level",
        "max_bytes",
        "max_wait_ms",
        "min_bytes",
        "rack_id",
        "replica_epoch",
        "replica_id",
        "session_durability",
        "session_epoch",
        "session_id",
        "topics",
    )

    def __init__(
        self,
        replica_id: int,
        replica_epoch: int,
        max_wait_ms: int,
        min_bytes: int,
        max_bytes: int,
        isolation_level: int,
        session_id: int,
        session_epoch: int,
        topics: list[tuple[str | bytes, list[PartitionFetch]]],
        forgotten: list[tuple[str | bytes, list[int]]],
        rack_id: str,
        cluster_id: str | None,
        session_durability: int,
    ) -> None:
        self.replica_id = replica_id
        self.replica_epoch = replica_epoch
        self.max_wait_ms = max_wait_ms
        self.min_bytes = min_bytes
        self.max_bytes = max_bytes
        self.isolation_level = isolation_level
        self.session_id = session_id
        self.session_epoch = session_epoch
        self.topics = topics
        self.forgotten = forgotten
        self.rack_id = rack_id
        self.cluster_id = cluster_id
        self.session_durability = session_durability


class Slice(Protocol):
    """Records that are not in memory: a range of a file."""

    length: int


Records = bytes | bytearray | memoryview | Slice


class FetchedRecords:
    """The answer for one partition. Pairs are (epoch, end offset), (leader id, leader epoch), (end offset, epoch)."""

    __slots__ = (
        "aborted_transactions",
        "current_leader",
        "diverging_epoch",
        "error_code",
        "high_watermark",
        "last_stable_offset",
        "log_start_offset",
        "partition",
        "preferred_read_replica",
        "records",
        "snapshot_id",
    )

    def __init__(
        self,
        partition: int,
        error_code: int = 0,
        high_watermark: int = NO_OFFSET,
        last_stable_offset: int = NO_OFFSET,
        log_start_offset: int = NO_OFFSET,
        records: Records | None = b"",
        aborted_transactions: Sequence[tuple[int, int]] | None = None,
        preferred_read_replica: int = -1,
        diverging_epoch: tuple[int, int] | None = None,
        current_leader: tuple[int, int] | None = None,
        snapshot_id: tuple[int, int] | None = None,
    ) -> None:
        self.partition = partition
        self.error_code = error_code
        self.high_watermark = high_watermark
        self.last_stable_offset = last_stable_offset
        self.log_start_offset = log_start_offset
        self.records = records
        self.aborted_transactions = aborted_transactions
        self.preferred_read_replica = preferred_read_replica
        self.diverging_epoch = diverging_epoch
        self.current_leader = current_leader
        self.snapshot_id = snapshot_id


_unpack_start_4: Final = Struct(">iiiib").unpack_from
_unpack_start_7: Final = Struct(">iiiibii").unpack_from
_unpack_start_15: Final = Struct(">iiibii").unpack_from
_partition_4: Final = Struct(">iqi")
_partition_5: Final = Struct(">iqqi")
_partition_9: Final = Struct(">iiqqi")
_unpack_partition_12: Final = Struct(">iiqiqi").unpack_from
_FOLLOWER_END: Final = Struct(">3siq4sb")
_DURABILITY: Final = b"\0\x90\x4e\1"  # no tags inside the first; the second one, 10000, of one byte
_SINGLE_BYTES: Final = 75  # of a request for one partition, up to the tags at its end
_NO_MORE: Final = b"\0\0\1\1"  # no tags of the partition and of the topic, nothing forgotten, no rack
_FOLLOWER_TAGS: Final = b"\2\1\x0d"


def decode_fetch_request(body: bytes, version: int) -> Fetch:
    """The request in `body`, all of it; ProtocolError for anything else."""
    try:
        if version >= 15:
            single = _decode_single(body, version)
            if single is not None:
                return single
        view = memoryview(body)
        return _decode_flexible(view, version) if version >= FLEXIBLE_FROM else _decode_classic(view, version)
    except MALFORMED as error:
        raise ProtocolError(f"a malformed Fetch request: {error}") from None


def _decode_single(body: bytes, version: int) -> Fetch | None:
    """The request of a consumer or of a follower for one partition, without a call for each number; None for others."""
    rest = len(body) - _SINGLE_BYTES
    # Counts and lengths travel plus one.
    if rest not in (1, _FOLLOWER_END.size) or body[21] != 2 or body[38] != 2 or body[71:75] != _NO_MORE:
        return None
    replica_id, replica_epoch, durability = CONSUMER_ID, NO_EPOCH, -1
    if rest == 1:
        if body[75]:
            return None
    else:
        if version < 17 or body[75:78] != _FOLLOWER_TAGS or body[90:94] != _DURABILITY:
            return None
        replica_id = read_i32_be(body, 78)
        replica_epoch = read_i64_be(body, 82)
        octet = body[94]
        durability = octet if octet < 0x80 else octet - 0x100
    asked = PartitionFetch(
        read_i32_be(body, 39),
        read_i64_be(body, 47),
        read_i32_be(body, 67),
        read_i32_be(body, 43),
        read_i32_be(body, 55),
        read_i64_be(body, 59),
    )
    isolation = body[12]
    return Fetch(
        replica_id,
        replica_epoch,
        read_i32_be(body, 0),
        read_i32_be(body, 4),
        read_i32_be(body, 8),
        isolation if isolation < 0x80 else isolation - 0x100,
        read_i32_be(body, 13),
        read_i32_be(body, 17),
        [(body[22:38], [asked])],
        [],
        "",
        None,
        durability,
    )


def _decode_flexible(body: memoryview, version: int) -> Fetch:
    replica_id, replica_epoch = CONSUMER_ID, NO_EPOCH
    if version >= 15:
        max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _unpack_start_15(body)
        position = 21
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _unpack_start_7(body)
        position = 25
    read_name = uuid if version >= TOPIC_IDS_FROM else compact_string
    topic_count, position = compact_count(body, position)
    left = spend(PARTITIONS_MAX, topic_count)
    topics: list[tuple[str | bytes, list[PartitionFetch]]] = []
    for _ in range(topic_count):
        name, position = read_name(body, position)
        partition_count, position = compact_count(body, position)
        left = spend(left, partition_count)
        partitions = []
        for _ in range(partition_count):
            index, epoch, offset, last_epoch, log_start, limit = _unpack_partition_12(body, position)
            position += 32
            tags = _NO_PARTITION_TAGS
            if body[position] == 0:
                position += 1
            elif version >= 17:
                tags, position = _read_partition_tags(body, position, version)
            else:
                position = skip_tags(body, position)
            partitions.append(PartitionFetch(index, offset, limit, epoch, last_epoch, log_start, *tags))
        position = skip_tags(body, position)
        topics.append((name, partitions))
    forgotten: list[tuple[str | bytes, list[int]]] = []
    forgotten_count, position = compact_count(body, position)
    left = spend(left, forgotten_count)
    for _ in range(forgotten_count):
        name, position = read_name(body, position)
        count, position = compact_count(body, position)
        left = spend(left, count)
        indexes, position = _read_int32s(body, position, count)
        position = skip_tags(body, position)
        forgotten.append((name, indexes))
    rack_id, position = compact_string(body, position)
    cluster_id, durability = None, -1
    if body[position] == 0:
        position += 1
    elif version >= 17 and (told := _follower_end(body, position)) is not None:
        replica_id, replica_epoch, durability = told
        position = len(body)
    else:
        reader = Reader(body, position)
        for tag, size in reader.read_tags():
            if tag == 0:
                cluster_id = reader.read_compact_nullable_string()
            elif tag == 1 and version >= 15:
                replica_id, replica_epoch = reader.read_int32(), reader.read_int64()
                reader.read_unknown_tagged_fields()
            elif tag == _SESSION_DURABILITY_TAG and version >= 17:
                durability = reader.read_int8()
            else:
                reader.read_view(size)
        position = reader.position
    _expect_end(body, position)
    return Fetch(
        replica_id, replica_epoch, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch,
        topics, forgotten, rack_id, cluster_id, durability,
    )  # fmt: skip


def _follower_end(body: memoryview, position: int) -> tuple[int, int, int] | None:
    """Replica, its epoch and the session's durability, where a request ends as those of `wire.follower_fetch` do."""
    if len(body) - position != _FOLLOWER_END.size:
        return None
    head, replica_id, replica_epoch, middle, durability = _FOLLOWER_END.unpack_from(body, position)
    return (replica_id, replica_epoch, durability) if head == _FOLLOWER_TAGS and middle == _DURABILITY else None


_NO_PARTITION_TAGS: Final = (ZERO_UUID, NO_HIGH_WATERMARK, NO_OFFSET)


def _read_partition_tags(body: memoryview, position: int, version: int) -> tuple[tuple[bytes, int, int], int]:
    """Directory id, high watermark and tombstone horizon, which only followers send, and the position behind them."""
    directory_id, high_watermark, tombstone_horizon = _NO_PARTITION_TAGS
    reader = Reader(body, position)
    for tag, size in reader.read_tags():
        if tag == 0:
            directory_id = reader.read_uuid()
        elif tag == 1 and version >= 18:
            high_watermark = reader.read_int64()
        elif tag == _TOMBSTONE_HORIZON_TAG:
            tombstone_horizon = reader.read_int64()
        else:
            reader.read_view(size)
    return (directory_id, high_watermark, tombstone_horizon), reader.position


def _decode_classic(body: memoryview, version: int) -> Fetch:
    session_id, session_epoch = 0, -1
    if version >= 7:
        replica_id, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch = _unpack_start_7(body)
        position = 25
    else:
        replica_id, max_wait, min_bytes, max_bytes, isolation = _unpack_start_4(body)
        position = 17
    topic_count, position = classic_count(body, position)
    left = spend(PARTITIONS_MAX, topic_count)
    topics: list[tuple[str | bytes, list[PartitionFetch]]] = []
    for _ in range(topic_count):
        name, position = classic_string(body, position)
        partition_count, position = classic_count(body, position)
        left = spend(left, partition_count)
        partitions = []
        for _ in range(partition_count):
            partition, position = _read_classic_partition(body, position, version)
            partitions.append(partition)
        topics.append((name, partitions))
    forgotten: list[tuple[str | bytes, list[int]]] = []
    if version >= 7:
        forgotten_count, position = classic_count(body, position)
        left = spend(left, forgotten_count)
        for _ in range(forgotten_count):
            name, position = classic_string(body, position)
            count, position = classic_count(body, position)
            left = spend(left, count)
            indexes, position = _read_int32s(body, position, count)
            forgotten.append((name, indexes))
    rack_id = ""
    if version >= 11:
        rack_id, position = classic_string(body, position)
    _expect_end(body, position)
    return Fetch(
        replica_id, NO_EPOCH, max_wait, min_bytes, max_bytes, isolation, session_id, session_epoch,
        topics, forgotten, rack_id, None, -1,
    )  # fmt: skip


def _read_classic_partition(body: memoryview, position: int, version: int) -> tuple[PartitionFetch, int]:
    if version >= 9:
        index, epoch, offset, log_start, limit = _partition_9.unpack_from(body, position)
        return PartitionFetch(index, offset, limit, epoch, NO_EPOCH, log_start), position + 28
    if version >= 5:
        index, offset, log_start, limit = _partition_5.unpack_from(body, position)
        return PartitionFetch(index, offset, limit, NO_EPOCH, NO_EPOCH, log_start), position + 24
    index, offset, limit = _partition_4.unpack_from(body, position)
    return PartitionFetch(index, offset, limit), position + 16


def _read_int32s(body: memoryview, position: int, count: int) -> tuple[list[int], int]:
    end = position + 4 * count
    if end > len(body):
        raise ProtocolError(f"{count} numbers announced in {len(body) - position} bytes")
    return list(Struct(f">{count}i").unpack_from(body, position)), end


def _expect_end(body: memoryview, position: int) -> None:
    if position != len(body):
        raise ProtocolError(f"{len(body) - position} bytes after the end of a Fetch request")


_start_4: Final = INT32.pack
_start_7: Final = Struct(">ihi").pack
_answer_4: Final = Struct(">ihqq").pack
_answer_5: Final = Struct(">ihqqq").pack
_pair_qq: Final = Struct(">qq").pack
_epoch_and_offset: Final = Struct(">iqB").pack
_leader: Final = Struct(">iiB").pack
_offset_and_epoch: Final = Struct(">qiB").pack


def encode_fetch_response(
    version: int,
    topics: Sequence[tuple[str | bytes, Sequence[FetchedRecords]]],
    *,
    throttle_ms: int = 0,
    error_code: int = 0,
    session_id: int = 0,
    endpoints: Sequence[NodeEndpoint] = (),
) -> list[Any]:
    """The body of a response as parts to send in order; the first is always made here.

    Hints at leaders and their endpoints are left out where a version can't say them; anything else that it can't say
    is a ProtocolError.
    """
    if version >= TOPIC_IDS_FROM and len(topics) == 1 and len(topics[0][1]) == 1 and not endpoints:
        single = _encode_single(topics[0][0], topics[0][1][0], throttle_ms, error_code, session_id)
        if single is not None:
            return single
    out = bytearray()
    parts: list[Any] = [out]
    out += _start_7(throttle_ms, error_code, session_id) if version >= 7 else _start_4(throttle_ms)
    if version < FLEXIBLE_FROM:
        out += INT32.pack(len(topics))
        for topic, partitions in topics:
            write_string(out, topic)  # type: ignore[arg-type]
            out += INT32.pack(len(partitions))
            for answer in partitions:
                out = _write_classic(parts, out, version, answer)
        return parts
    write_unsigned_varint(out, len(topics) + 1)
    for topic, partitions in topics:
        if version >= TOPIC_IDS_FROM:
            write_uuid(out, topic)  # type: ignore[arg-type]
        else:
            write_compact_string(out, topic)  # type: ignore[arg-type]
        write_unsigned_varint(out, len(partitions) + 1)
        for answer in partitions:
            out = _write_flexible(parts, out, answer)
        out.append(0)
    nodes = encode_endpoints(endpoints) if version >= 16 else None
    write_tagged_fields(out, {0: nodes} if nodes else None, None)
    return parts


def _encode_single(
    topic: str | bytes, answer: FetchedRecords, throttle_ms: int, error_code: int, session_id: int
) -> list[Any] | None:
    """The most common answer, one partition without tags or aborted transactions; None for others."""
    records = answer.records
    if answer.aborted_transactions or records is None or not isinstance(topic, bytes) or len(topic) != 16:
        return None
    if answer.diverging_epoch is not None or answer.current_leader is not None or answer.snapshot_id is not None:
        return None
    out = BytesWriter()
    write_i32_be(out, throttle_ms)
    write_i16_be(out, error_code)
    write_i32_be(out, session_id)
    out.append(2)  # counts travel plus one: 2 is one element, 1 is none, 0 is null
    out.write(topic)
    out.append(2)
    write_i32_be(out, answer.partition)
    write_i16_be(out, answer.error_code)
    write_i64_be(out, answer.high_watermark)
    write_i64_be(out, answer.last_stable_offset)
    write_i64_be(out, answer.log_start_offset)
    out.append(0 if answer.aborted_transactions is None else 1)
    write_i32_be(out, answer.preferred_read_replica)
    length = len(records) if isinstance(records, _IN_MEMORY) else records.length
    append_unsigned_varint(out, length + 1)
    if isinstance(records, bytes) and length <= INLINE_BYTES:
        out.write(records)
        out.write(b"\0\0\0")
        return [out.getvalue()]
    return [out.getvalue(), records, b"\0\0\0"]


def _write_flexible(parts: list[Any], out: bytearray, answer: FetchedRecords) -> bytearray:
    records, aborted = answer.records, answer.aborted_transactions
    diverging, leader, snapshot = answer.diverging_epoch, answer.current_leader, answer.snapshot_id
    head = (answer.partition, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    out += _answer_5(*head, answer.log_start_offset)
    if aborted is None:
        out.append(0)
    else:
        write_unsigned_varint(out, len(aborted) + 1)
        for producer_id, first_offset in aborted:
            out += _pair_qq(producer_id, first_offset)
            out.append(0)
    out += INT32.pack(answer.preferred_read_replica)
    if records is None:
        out.append(0)
    else:
        length = len(records) if isinstance(records, _IN_MEMORY) else records.length
        write_unsigned_varint(out, length + 1)
        out = _splice(parts, out, records, length)
    if diverging is None and leader is None and snapshot is None:
        out.append(0)
    else:
        _write_partition_tags(out, diverging, leader, snapshot)
    return out


def _write_partition_tags(
    out: bytearray,
    diverging: tuple[int, int] | None,
    leader: tuple[int, int] | None,
    snapshot: tuple[int, int] | None,
) -> None:
    tags: dict[int, bytearray] = {}
    if diverging is not None and diverging != (-1, -1):
        tags[0] = bytearray(_epoch_and_offset(*diverging, 0))
    if leader is not None and leader != (-1, -1):
        tags[1] = bytearray(_leader(*leader, 0))
    if snapshot is not None and snapshot != (-1, -1):
        tags[2] = bytearray(_offset_and_epoch(*snapshot, 0))
    write_tagged_fields(out, tags, None)


def _write_classic(parts: list[Any], out: bytearray, version: int, answer: FetchedRecords) -> bytearray:
    if answer.diverging_epoch is not None or answer.snapshot_id is not None:
        raise ProtocolError(f"Fetch version {version} can't tell a diverging epoch or a snapshot")
    if version < 11 and answer.preferred_read_replica != -1:
        raise ProtocolError(f"Fetch version {version} can't tell a preferred read replica")
    head = (answer.partition, answer.error_code, answer.high_watermark, answer.last_stable_offset)
    out += _answer_5(*head, answer.log_start_offset) if version >= 5 else _answer_4(*head)
    aborted = answer.aborted_transactions
    if aborted is None:
        out += b"\xff\xff\xff\xff"
    else:
        out += INT32.pack(len(aborted))
        for producer_id, first_offset in aborted:
            out += _pair_qq(producer_id, first_offset)
    if version >= 11:
        out += INT32.pack(answer.preferred_read_replica)
    records = answer.records
    if records is None:
        out += b"\xff\xff\xff\xff"
        return out
    length = len(records) if isinstance(records, _IN_MEMORY) else records.length
    out += INT32.pack(length)
    return _splice(parts, out, records, length)


def _splice(parts: list[Any], out: bytearray, records: Records, length: int) -> bytearray:
    """Add the records; returns the buffer to go on with. An empty slice is kept too: somebody has to release it."""
    if isinstance(records, _IN_MEMORY) and length <= INLINE_BYTES:
        out += records
        return out
    following = bytearray()
    parts += (records, following)
    return following
