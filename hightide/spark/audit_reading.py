"""Reading replicas on the executors: one row per batch, or per record where replicas may be compacted (S4).

A batch is a row of its place, its length, its leader epoch, its stored CRC and whether that is right; with a full hash
also a digest of all its bytes. Replicas of a compacted topic clean themselves at their own times, so their batches may
rightly differ; their records are read instead, each with a digest of its content and one of its key.
What can't be read is a row too, with the problem in it: the other replicas' rows tell what is missing there.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, NamedTuple

from hightide.client.fetch import FetchedPartition, FetchLimits
from hightide.client.replicas import fetch_replica
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.spark.audit_plan import Split
from hightide.spark.blocking import BlockingCluster, ClientSettings
from hightide.types import TopicPartition
from hightide.wire.records import BatchHeader, Buffer, Record, crc_ok, iterate_headers, iterate_records

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_LIMITS = FetchLimits(max_wait_ms=500, max_bytes=8 * 1024 * 1024, partition_max_bytes=8 * 1024 * 1024)
EMPTY_ANSWERS_MAX = 4  # two seconds without anything new: this replica has no more
ROWS_PER_BATCH = 16 * 1024
DIGEST_BYTES = 16

_PLACE = "topic string, partition int, broker int"
BATCH_COLUMNS = (
    f"{_PLACE}, base_offset bigint, next_offset bigint, size bigint, epoch int, crc bigint, ok boolean, "
    "digest binary, problem string"
)
RECORD_COLUMNS = f"{_PLACE}, offset bigint, size bigint, key binary, digest binary, owed boolean, problem string"


class BatchRow(NamedTuple):
    """One batch of one replica, or a problem at an offset."""

    topic: str
    partition: int
    broker: int
    base_offset: int
    next_offset: int
    size: int
    epoch: int
    crc: int
    ok: bool
    digest: bytes | None
    problem: str | None


class RecordRow(NamedTuple):
    """One record of one replica, or a problem at an offset.

    `owed`: compaction keeps the newest record of a key unless it is a tombstone, or a transaction wrote it and gave up.
    """

    topic: str
    partition: int
    broker: int
    offset: int
    size: int
    key: bytes | None
    digest: bytes | None
    owed: bool
    problem: str | None


def read_splits(client: ClientSettings, splits: Sequence[Split], *, full_hash: bool) -> "Iterator[pa.RecordBatch]":
    """Rows of these splits, all of one kind, as Arrow."""
    with BlockingCluster(client) as cluster:
        for split in splits:
            if split.compacted:
                yield from to_arrow(_record_rows(cluster, split), RecordRow)
            else:
                yield from to_arrow(_batch_rows(cluster, split, full_hash=full_hash), BatchRow)


def to_arrow(rows: Iterable[tuple[Any, ...]], kind: type[BatchRow] | type[RecordRow]) -> "Iterator[pa.RecordBatch]":
    """Rows as record batches of a bounded size."""
    schema = arrow_schema(kind)
    waiting: list[tuple[Any, ...]] = []
    for row in rows:
        waiting.append(row)
        if len(waiting) >= ROWS_PER_BATCH:
            yield _arrow_batch(waiting, schema)
            waiting = []
    if waiting:
        yield _arrow_batch(waiting, schema)


def arrow_schema(kind: type[BatchRow] | type[RecordRow]) -> "pa.Schema":
    """The columns of a kind of row."""
    import pyarrow as pa

    types = {
        "string": pa.string(),
        "int": pa.int32(),
        "bigint": pa.int64(),
        "boolean": pa.bool_(),
        "binary": pa.binary(),
    }
    columns = BATCH_COLUMNS if kind is BatchRow else RECORD_COLUMNS
    return pa.schema([(name, types[spelled]) for name, spelled in (column.split() for column in columns.split(", "))])


def _arrow_batch(rows: list[tuple[Any, ...]], schema: "pa.Schema") -> "pa.RecordBatch":
    import pyarrow as pa

    columns = zip(*rows, strict=True)
    arrays = [pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def _batch_rows(cluster: BlockingCluster, split: Split, *, full_hash: bool) -> Iterator[BatchRow]:
    place = (split.topic, split.partition, split.broker)
    reading = _Reading(cluster, split)
    for data, position, header in reading:
        digest = None
        if full_hash:
            whole = memoryview(data)[position : position + header.size]
            digest = blake2b(whole, digest_size=DIGEST_BYTES).digest()
        yield BatchRow(
            *place, header.base_offset, header.next_offset, header.size, header.partition_leader_epoch, header.crc,
            crc_ok(data, position, header), digest, None,
        )  # fmt: skip
    if reading.problem is not None:
        yield BatchRow(*place, reading.offset, reading.offset, 0, -1, 0, False, None, reading.problem)


def _record_rows(cluster: BlockingCluster, split: Split) -> Iterator[RecordRow]:
    place = (split.topic, split.partition, split.broker)
    reading = _Reading(cluster, split)
    for data, position, header in reading:
        if not crc_ok(data, position, header):
            yield RecordRow(*place, header.base_offset, 0, None, None, False, "corrupt")
            continue
        try:
            for record in iterate_records(data, position, header):
                if split.start <= record.offset < split.end:
                    yield record_row(place, header, record)
        except ProtocolError as error:
            yield RecordRow(*place, header.base_offset, 0, None, None, False, str(error))
    if reading.problem is not None:
        yield RecordRow(*place, reading.offset, 0, None, None, False, reading.problem)


def record_row(place: tuple[str, int, int], header: BatchHeader, record: Record) -> RecordRow:
    """One record of a batch."""
    key = None if record.key is None else blake2b(record.key, digest_size=DIGEST_BYTES).digest()
    content = blake2b(digest_size=DIGEST_BYTES)
    parts = [record.timestamp, record.key, record.value, *(part for header in record.headers for part in header)]
    for part in parts:  # with lengths, so that no two contents have the same bytes in a row
        text = repr(part).encode("utf-8", "surrogateescape") if not isinstance(part, bytes) else part
        content.update(b"%d:%d:" % (isinstance(part, bytes), len(text)) + text)
    owed = not (record.value is None or header.is_transactional or header.is_control or record.key is None)
    size = len(record.key or b"") + len(record.value or b"")
    return RecordRow(*place, record.offset, size, key, content.digest(), owed, None)


class _Reading:
    """The batches of a split in order; afterwards `problem` and `offset` say why and where it ended too early.

    The next answer is on its way while the batches of the last one are looked at.
    """

    def __init__(self, cluster: BlockingCluster, split: Split) -> None:
        self._cluster = cluster
        self._split = split
        self._partition = TopicPartition(split.topic, split.partition)
        self.offset = split.start
        self.problem: str | None = None

    def __iter__(self) -> Iterator[tuple[Buffer, int, BatchHeader]]:
        split = self._split
        following: Future[FetchedPartition] | None = None
        empty_answers = 0
        try:
            while self.offset < split.end and empty_answers < EMPTY_ANSWERS_MAX:
                fetched = (following or self._ask()).result()
                following = None
                if fetched.error:
                    if not self._moved_up(fetched):
                        return
                    continue
                batches = list(iterate_headers(fetched.records))
                if not batches:
                    if len(fetched.records):
                        raise ProtocolError("a batch is cut short, or its length is wrong")
                    empty_answers += 1
                    continue
                empty_answers = 0
                self._advance(batches[-1][1].next_offset)
                if self.offset < split.end:
                    following = self._ask()
                for position, header in batches:
                    if self._belongs(header):
                        yield fetched.records, position, header
        except (ApiError, ProtocolError) as error:
            self.problem = str(error) or type(error).__name__

    def _advance(self, following: int) -> None:
        if following <= self.offset:
            raise ProtocolError(f"a batch that ends before {following} where {self.offset} was asked for")
        self.offset = following

    def _belongs(self, header: BatchHeader) -> bool:
        split = self._split
        if header.base_offset >= split.end or header.next_offset > split.bound:
            return False
        if split.compacted:
            return True  # its records are looked at one by one
        return header.base_offset >= split.start or split.is_first

    def _moved_up(self, fetched: FetchedPartition) -> bool:
        """Retention may have passed us: go on at the start. Beyond the end there is just nothing more."""
        if fetched.error is not ErrorCode.OFFSET_OUT_OF_RANGE:
            self.problem = fetched.error.name
            return False
        if fetched.log_start <= self.offset:
            return False
        self.offset = fetched.log_start
        return True

    def _ask(self) -> "Future[FetchedPartition]":
        broker, where, offset = self._split.broker, self._partition, self.offset
        return self._cluster.start(
            lambda cluster: cluster.retrying(lambda: fetch_replica(cluster, broker, where, offset, FETCH_LIMITS))
        )
