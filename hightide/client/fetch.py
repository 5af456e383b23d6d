"""Raw fetches: whole batches as the broker keeps them, and which of them a reader may see."""

from collections import defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.client.connections import Connection
from hightide.client.metadata import Topic
from hightide.errors import ApiError, ErrorCode
from hightide.types import NO_BROKER, NO_EPOCH, TopicPartition
from hightide.wire.messages.fetch import FetchPartition, FetchRequest, FetchResponse, FetchTopic, ReplicaState
from hightide.wire.records import (
    BatchHeader,
    Buffer,
    ControlType,
    control_type_of,
    crc_ok,
    iterate_headers,
    iterate_records,
)

DEBUGGING_CONSUMER = -2  # the replica id of a reader to whom any replica answers, not the leader alone
_FIRST_VERSION_WITH_STATE = 15


class FetchLimits(NamedTuple):
    """How long to wait and how much to take. Java's defaults."""

    max_wait_ms: int = 500
    min_bytes: int = 1
    max_bytes: int = 50 * 1024 * 1024
    partition_max_bytes: int = 1024 * 1024


DEFAULT_LIMITS = FetchLimits()


class Aborted(NamedTuple):
    """A transaction that was given up: from this offset on, up to its marker, the producer's batches do not count."""

    first_offset: int
    producer_id: int


class FetchedPartition(NamedTuple):
    """One partition's part of an answer."""

    partition: TopicPartition
    error: ErrorCode
    high_watermark: int
    last_stable_offset: int
    log_start: int
    records: Buffer
    aborted: Sequence[Aborted]


async def fetch(
    connection: Connection,
    topics: Iterable[Topic],
    offsets: Mapping[TopicPartition, int],
    *,
    limits: FetchLimits = DEFAULT_LIMITS,
    read_committed: bool = False,
    any_replica: bool = False,
) -> list[FetchedPartition]:
    """Whole batches from each offset on, from the one broker that leads these partitions.

    With `any_replica`, from whoever keeps them, to the end of its log: what Kafka calls the debugging consumer.
    """
    known = {topic.name: topic for topic in topics}
    wanted: defaultdict[str, list[FetchPartition]] = defaultdict(list)
    for (name, index), offset in offsets.items():
        wanted[name].append(
            FetchPartition(
                partition=index,
                current_leader_epoch=NO_EPOCH if any_replica else known[name].partition(index).leader_epoch,
                fetch_offset=offset,
                partition_max_bytes=limits.partition_max_bytes,
            )
        )
    request = FetchRequest(
        max_wait_ms=limits.max_wait_ms,
        min_bytes=limits.min_bytes,
        max_bytes=limits.max_bytes,
        isolation_level=int(read_committed),
        topics=[
            FetchTopic(topic=name, topic_id=known[name].id, partitions=partitions)
            for name, partitions in wanted.items()
        ],
    )
    version = connection.version_of(request.api_key)
    replica_id = DEBUGGING_CONSUMER if any_replica else NO_BROKER
    if version >= _FIRST_VERSION_WITH_STATE:
        request.replica_state = ReplicaState(replica_id=replica_id)
    else:
        request.replica_id = replica_id
    response = await connection.call(request, FetchResponse, version=version)
    if response.error_code:
        raise ApiError(code_of(response.error_code), f"fetch from {connection.address}")
    return list(_partitions(response, {topic.id: topic.name for topic in known.values()}))


def _partitions(response: FetchResponse, names: Mapping[bytes, str]) -> Iterator[FetchedPartition]:
    for topic in response.responses:
        name = topic.topic or names.get(topic.topic_id)
        if name is None:
            continue
        for data in topic.partitions:
            yield FetchedPartition(
                TopicPartition(name, data.partition_index),
                code_of(data.error_code),
                data.high_watermark,
                data.last_stable_offset,
                data.log_start_offset,
                b"" if data.records is None else data.records,
                sorted(Aborted(each.first_offset, each.producer_id) for each in data.aborted_transactions or ()),
            )


def visible_batches(fetched: FetchedPartition) -> Iterator[tuple[int, BatchHeader, bool]]:
    """Position and header of every whole batch, CRC checked, and whether a reader sees its records.

    Markers are never seen, nor are batches of a transaction that the answer lists as aborted (none in a plain read).
    """
    records = fetched.records
    aborted, active = deque(fetched.aborted), set[int]()
    for position, header in iterate_headers(records):
        if not crc_ok(records, position, header):
            raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"partition {fetched.partition}, offset {header.base_offset}")
        while aborted and aborted[0].first_offset <= header.last_offset:
            active.add(aborted.popleft().producer_id)
        if header.is_control:
            marker = next(iterate_records(records, position, header), None)
            if marker is not None and control_type_of(marker.key) is ControlType.ABORT:
                active.discard(header.producer_id)
            yield position, header, False
        else:
            yield position, header, not (header.is_transactional and header.producer_id in active)
