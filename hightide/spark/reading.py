"""What a task does: fetch a range of one partition from its leader, decode it, and hand it to Spark.

The next fetch is under way while the last one is decoded. A leader that moved, a broker that died: the client asks
where the partition is now and goes on; only after `kafkaConsumer.pollTimeoutMs` without a record does the task fail,
and Spark tries it again.
"""

from collections.abc import Iterator
from concurrent.futures import Future
from typing import TYPE_CHECKING

from hightide.client.cluster import Cluster
from hightide.client.fetch import FetchedPartition, fetch
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.client.retries import retry
from hightide.errors import ApiError, ErrorCode
from hightide.spark.blocking import BlockingCluster
from hightide.spark.decoding import Decoder
from hightide.spark.options import SourceOptions
from hightide.spark.planning import OffsetRange, report_loss
from hightide.types import TopicPartition
from hightide.wire.records import iterate_headers

if TYPE_CHECKING:
    import pyarrow as pa

FETCH_LANE = "fetch"
_GONE = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)


def read_range(wanted: OffsetRange, options: SourceOptions) -> "Iterator[pa.RecordBatch]":
    """Every record of the range that a reader may see."""
    assert options.client is not None
    decoder = Decoder(options.columns, wanted.partition)
    with BlockingCluster(options.client) as cluster:
        reader = _RangeReader(cluster, wanted, options)
        for fetched, position in reader.fetched():
            yield from decoder.decode(fetched, position, wanted.end)


class _RangeReader:
    """The fetches of one range, in order."""

    def __init__(self, cluster: BlockingCluster, wanted: OffsetRange, options: SourceOptions) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._options = options

    def fetched(self) -> Iterator[tuple[FetchedPartition, int]]:
        """Each answer with records, and the offset that it was asked for."""
        position: int | None = self._wanted.start
        pending: Future[FetchedPartition] | None = None
        while position is not None and position < self._wanted.end:
            answer = (pending or self._start(position)).result()
            pending = None
            if answer.error is not ErrorCode.NONE:
                position = self._after_loss(answer, position)
                continue
            asked, position = position, _following(answer, position)
            if position < self._wanted.end:
                pending = self._start(position)
            yield answer, asked

    def _start(self, position: int) -> "Future[FetchedPartition]":
        return self._cluster.start(lambda cluster: self._until_records(cluster, position))

    async def _until_records(self, cluster: Cluster, position: int) -> FetchedPartition:
        """An answer that has records or says that there are none to be had."""
        policy = cluster.retries._replace(give_up_after=self._options.poll_timeout)
        return await retry(cluster.clock, policy, lambda: self._attempt(cluster, position), cluster.heard)

    async def _attempt(self, cluster: Cluster, position: int) -> FetchedPartition:
        name, index = where = self._wanted.partition
        try:
            topic = await cluster.topic(name)
        except ApiError as error:
            if error.code in _GONE and not self._options.fail_on_data_loss:
                return _failed(where, error.code)
            raise
        connection = await cluster.broker(topic.leader(index).leader, FETCH_LANE)
        (answer,) = await fetch(
            connection, [topic], {where: position}, limits=self._options.limits,
            read_committed=self._options.read_committed,
        )  # fmt: skip
        if answer.error is ErrorCode.OFFSET_OUT_OF_RANGE:
            return answer
        if answer.error is not ErrorCode.NONE:
            raise ApiError(answer.error, f"partition {where}")
        if not len(answer.records):
            # The end of the range was below the high watermark once: a new leader may not know it yet.
            what = f"Cannot fetch record for offset {position} of {where}: its leader has none yet"
            raise ApiError(ErrorCode.OFFSET_NOT_AVAILABLE, what)
        return answer

    def _after_loss(self, answer: FetchedPartition, position: int) -> int | None:
        """Where to go on when the records at this position are gone; DataLossError when that must not be."""
        where, end = self._wanted.partition, self._wanted.end
        fail = self._options.fail_on_data_loss
        if answer.error in _GONE:
            report_loss(
                f"Partition {where} has been deleted before offsets {position} to {end - 1} were read.", fail=fail
            )
            return None
        first, last = self._cluster.run(lambda cluster: _edges(cluster, where))
        if position < first:
            gone = f"Offsets {position} to {min(first, end) - 1} of partition {where} are gone: it begins at {first}."
            report_loss(gone, fail=fail)
            return first
        report_loss(f"Offsets {position} to {end - 1} of partition {where} are gone: it ends at {last}.", fail=fail)
        return None


async def _edges(cluster: Cluster, where: TopicPartition) -> tuple[int, int]:
    first = await list_offsets(cluster, {where: EARLIEST})
    last = await list_offsets(cluster, {where: LATEST})
    return first[where].offset, last[where].offset


def _following(answer: FetchedPartition, position: int) -> int:
    """The offset after the last whole batch; a batch that does not fit at all is the broker's mistake."""
    following = position
    for _, header in iterate_headers(answer.records):
        following = max(following, header.next_offset)
    if following == position:
        raise ApiError(ErrorCode.CORRUPT_MESSAGE, f"no whole batch at offset {position} of {answer.partition}")
    return following


def _failed(where: TopicPartition, code: ErrorCode) -> FetchedPartition:
    return FetchedPartition(where, code, -1, -1, -1, b"", ())
