"""The sink: DataFrames, batch and streaming, into topics.

Columns as in the stock connector: `value` (text or bytes), and if wanted `key`, `headers`, `topic`, `partition`; the
option `topic` wins over the column. At least once: every task has an idempotent producer of its own, and a task or a
batch that Spark runs again is written again.
"""

from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING, NamedTuple

from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from hightide.spark.blocking import BlockingCluster, ClientSettings
from hightide.spark.kafka_options import PREFIX, Delivery, client_settings, delivery, kafka_options
from hightide.spark.schema import HEADERS

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.types import StructType

# What Spark itself or the stock connector passes to a sink, besides `topic`.
_ALSO_KNOWN = {
    "topic", "includeheaders", "path", "checkpointlocation", "queryname", "outputmode", "truncate",
    "asyncprogresstrackingenabled", "asyncprogresstrackingcheckpointintervalms",
}  # fmt: skip
_TEXT_OR_BYTES = ("string", "binary")
_HEADERS_TYPE = "array<struct<key:string,value:binary>>"
ENCODE_BYTES = 8 * 1024 * 1024  # of rows at a time: batches of all partitions should be large
QUERY_PROPERTY = "sql.streaming.queryId"  # Spark's own names, which are nobody's promise: a test watches them
BATCH_PROPERTY = "streaming.sql.batchId"


class SinkOptions(NamedTuple):
    """Everything a writer was told; picklable."""

    client: ClientSettings
    topic: str | None
    delivery: Delivery


class TaskIdentity(NamedTuple):
    """Which part of which batch of which query a task writes: the same again when Spark replays it."""

    query: str | None
    batch: int | None
    partition: int

    @classmethod
    def of_this_task(cls) -> "TaskIdentity":
        """Ask Spark."""
        from pyspark import TaskContext

        context = TaskContext.get()
        if context is None:
            return cls(None, None, 0)
        batch = context.getLocalProperty(BATCH_PROPERTY)
        query = context.getLocalProperty(QUERY_PROPERTY)
        return cls(query, None if batch is None else int(batch), context.partitionId())


class Written(WriterCommitMessage):
    """What a task has written."""

    def __init__(self, identity: TaskIdentity, records: int, size: int) -> None:
        self.identity = identity
        self.records = records
        self.bytes = size


def sink_options(options: Mapping[str, str], schema: "StructType") -> SinkOptions:
    """Check and parse; ValueError with a sentence that tells what to do."""
    given = {key.lower(): value for key, value in options.items()}
    for name in given:
        if not name.startswith(PREFIX) and name not in _ALSO_KNOWN:
            near = get_close_matches(name, _ALSO_KNOWN, 1)
            hint = f"; did you mean '{near[0]}'?" if near else ""
            raise ValueError(f"Option '{name}' is not known to the sink hightide{hint}")
    kafka = kafka_options(given)
    topic = given.get("topic", "").strip() or None
    check_columns(schema, topic)
    return SinkOptions(client_settings(kafka, "producer"), topic, delivery(kafka))


def check_columns(schema: "StructType", topic: str | None) -> None:
    """The columns of a DataFrame that is to be written; the others are ignored."""
    types = {field.name: field.dataType.simpleString() for field in schema.fields}
    if topic is None and "topic" not in types:
        raise ValueError(
            "topic option required when no 'topic' attribute is present. Use the topic option for setting a topic."
        )
    if "value" not in types:
        raise ValueError("Required attribute 'value' not found")
    wanted = {
        "topic": ("string",), "key": _TEXT_OR_BYTES, "value": _TEXT_OR_BYTES, HEADERS: (_HEADERS_TYPE,),
        "partition": ("int",),
    }  # fmt: skip
    for name, allowed in wanted.items():
        if name in types and types[name] not in allowed and not (name == "topic" and topic is not None):
            raise ValueError(
                f"{name} attribute unsupported type {types[name]}. {name} must be a(n) {' or '.join(allowed)}"
            )


class BatchWriter(DataSourceArrowWriter):
    """`df.write.format("hightide")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """One task."""
        return write_rows(iterator, self._options)


class StreamWriter(DataSourceStreamArrowWriter):
    """`df.writeStream.format("hightide")`."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def write(self, iterator: "Iterator[pa.RecordBatch]") -> Written:
        """One task of one micro-batch."""
        return write_rows(iterator, self._options)


def write_rows(rows: "Iterator[pa.RecordBatch]", options: SinkOptions) -> Written:
    """Send all rows and wait until they are kept."""
    from hightide.client.cluster import Cluster
    from hightide.spark.encoding import Encoder
    from hightide.spark.sending import Sender

    identity = TaskIdentity.of_this_task()

    async def open_sender(cluster: Cluster) -> Sender:
        sender = Sender(cluster, options.delivery)
        await sender.open()
        return sender

    with BlockingCluster(options.client) as cluster:
        sender = cluster.run(open_sender)
        encoder = Encoder(
            options.topic,
            lambda name: cluster.run(lambda _: sender.partition_count(name)),
            batch_bytes=options.delivery.batch_bytes,
            record_bytes_max=options.delivery.request_bytes_max,
            sticky_start=identity.partition,
        )
        for portion in _portions(rows):
            for batch in encoder.encode(portion):
                cluster.run(lambda _, batch=batch: sender.put(batch))  # type: ignore[misc]
        cluster.run(lambda _: sender.flush())
        return Written(identity, sender.records, sender.bytes)


def _portions(rows: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
    """Spark's Arrow batches, several at a time."""
    import pyarrow as pa

    gathered: list[pa.RecordBatch] = []
    size = 0
    for batch in rows:
        gathered.append(batch)
        size += batch.nbytes
        if size >= ENCODE_BYTES:
            yield pa.concat_batches(gathered)
            gathered, size = [], 0
    if gathered:
        yield pa.concat_batches(gathered)
