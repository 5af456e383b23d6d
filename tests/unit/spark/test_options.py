"""The options of the source and the sink: names, defaults and checks of the stock connector."""

import pytest
from pyspark.sql.types import ArrayType, BinaryType, IntegerType, StringType, StructField, StructType

from hightide.spark.kafka_options import Delivery
from hightide.spark.options import Triggers, chosen_columns, duration, source_options
from hightide.spark.positions import Kind
from hightide.spark.schema import COLUMNS, HEADERS, arrow_schema, spark_schema
from hightide.spark.sink import check_columns, sink_options
from hightide.spark.source import HightideDataSource
from hightide.types import TopicPartition
from hightide.wire.compression import Codec

BROKER = {"kafka.bootstrap.servers": "127.0.0.1:9092"}
PLAIN = BROKER | {"subscribe": "orders"}


def test_the_defaults_are_the_connectors() -> None:
    batch, stream = source_options(PLAIN, streaming=False), source_options(PLAIN, streaming=True)
    assert (batch.starting.kind, batch.ending.kind) == (Kind.EARLIEST, Kind.LATEST)
    assert stream.starting.kind is Kind.LATEST
    assert stream.fail_on_data_loss
    assert not stream.read_committed
    assert stream.triggers == Triggers(None, None, 900.0)
    assert (stream.offset_attempts, stream.offset_pause, stream.poll_timeout) == (3, 0.01, 120.0)
    assert (stream.partitions_min, stream.records_per_partition_max) == (None, None)
    assert stream.columns == COLUMNS
    assert sink_options(BROKER | {"topic": "t"}, StructType().add("value", "string")).delivery == Delivery()


def test_names_are_known_in_any_case() -> None:
    options = source_options(
        {key.upper(): value for key, value in PLAIN.items()} | {"MINPARTITIONS": "4"}, streaming=True
    )
    assert options.partitions_min == 4
    assert options.subscription.topics == ("orders",)


def test_the_most_special_position_wins() -> None:
    offsets = {"startingOffsets": '{"orders":{"0":5}}'}
    by_time = {"startingOffsetsByTimestamp": '{"orders":{"0":1000}}'}
    one_time = {"startingTimestamp": "2000"}
    assert source_options(PLAIN | offsets, streaming=True).starting.per_partition == {TopicPartition("orders", 0): 5}
    assert source_options(PLAIN | offsets | by_time, streaming=True).starting.kind is Kind.TIMESTAMPS
    chosen = source_options(PLAIN | offsets | by_time | one_time, streaming=True).starting
    assert (chosen.kind, chosen.timestamp, chosen.latest_when_too_young) == (Kind.TIMESTAMP, 2000, False)
    lenient = PLAIN | one_time | {"startingOffsetsByTimestampStrategy": "latest"}
    assert source_options(lenient, streaming=True).starting.latest_when_too_young


MISTAKES = [
    (BROKER, "One of the following options must be specified for Kafka source: subscribe, subscribePattern, assign"),
    (PLAIN | {"assign": "{}"}, "Only one of the following options can be specified for Kafka source"),
    (BROKER | {"subscribe": " , "}, "No topics to subscribe to as specified value for option 'subscribe' is ' , '"),
    (BROKER | {"subscribePattern": " "}, "Pattern to subscribe is empty"),
    (BROKER | {"subscribePattern": "("}, "no regular expression"),
    (BROKER | {"assign": "orders"}, "No topicpartitions to assign as specified value for option 'assign' is 'orders'"),
    (BROKER | {"assign": '{"orders": 1}'}, r'Expected e.g. \{"topicA":\[0,1\],"topicB":\[0,1\]\}, got'),
    ({"subscribe": "orders"}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka consumer"),
    (PLAIN | {"kafka.bootstrap.servers": "nowhere"}, "write host:port"),
    (PLAIN | {"minPartitions": "0"}, "minPartitions must be positive"),
    (PLAIN | {"maxRecordsPerPartition": "-1"}, "maxRecordsPerPartition must be positive"),
    (PLAIN | {"minPartitions": "many"}, "not a whole number"),
    (PLAIN | {"minOffsetsPerTrigger": "20", "maxOffsetsPerTrigger": "10"}, r"minOffsetPerTrigger\(20\) is higher than"),
    (PLAIN | {"maxTriggerDelay": "soon"}, "write a time such as"),
    (PLAIN | {"failOnDataLoss": "maybe"}, "must be true or false"),
    (PLAIN | {"startingTimestamp": "yesterday"}, "Expected a single long value, got yesterday"),
    (
        PLAIN | {"startingOffsets": "first"},
        r'Expected e.g. \{"topicA":\{"0":23,"1":-1\},"topicB":\{"0":-2\}\}, got first',
    ),
    (PLAIN | {"startingOffsetsByTimestamp": '{"orders":{"0":"x"}}'}, "Expected e.g. .* got"),
    (PLAIN | {"startingOffsetsByTimestampStrategy": "guess"}, "must be error or latest"),
    (PLAIN | {"kafka.auto.offset.reset": "latest"}, "Instead set the source option 'startingOffsets'"),
    (PLAIN | {"kafka.key.deserializer": "x"}, "'key.deserializer' is not supported as keys are deserialized"),
    (PLAIN | {"kafka.value.deserializer": "x"}, "'value.deserializer' is not supported as values are deserialized"),
    (PLAIN | {"kafka.enable.auto.commit": "true"}, "Kafka option 'enable.auto.commit' is not supported"),
    (PLAIN | {"kafka.interceptor.classes": "x"}, "Kafka option 'interceptor.classes' is not supported"),
    (PLAIN | {"kafka.security.protocol": "SASL_SSL"}, "only PLAINTEXT is supported"),
    (PLAIN | {"kafka.sasl.mechanism": "PLAIN"}, "Kafka option 'sasl.mechanism' is not supported"),
    (PLAIN | {"kafka.fetch.max.byte": "1"}, "did you mean 'kafka.fetch.max.bytes'"),
    (PLAIN | {"startingOffset": "latest"}, "did you mean 'startingOffsets'"),
    (PLAIN | {"isolation.level": "serializable"}, "must be read_committed or read_uncommitted"),
    (PLAIN | {"columns": "value,color"}, "it must name some of key, value, topic"),
    (PLAIN | {"path": "/archive"}, "can't be combined with a subscription or a broker"),
    ({"path": "/archive", "startingOffsets": "earliest"}, "filter the column 'offset'"),
]
BATCH_MISTAKES = [
    (PLAIN | {"startingOffsets": "latest"}, "starting offset can't be latest for batch queries on Kafka"),
    (PLAIN | {"startingOffsets": '{"orders":{"0":-1}}'}, "startingOffsets for orders-0 can't be latest for batch"),
    (PLAIN | {"endingOffsets": "earliest"}, "ending offset can't be earliest for batch queries on Kafka"),
    (PLAIN | {"endingOffsets": '{"orders":{"0":-2}}'}, "ending offset for orders-0 can't be earliest for batch"),
    (
        PLAIN | {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"0":4}}'},
        "The specified start offset 5 is greater than the end offset 4 for topic orders partition 0",
    ),
    (
        PLAIN | {"startingOffsets": '{"orders":{"0":5}}', "endingOffsets": '{"orders":{"1":9}}'},
        "should have the same topic-partitions",
    ),
]
STREAM_MISTAKES = [
    (PLAIN | {"endingOffsets": "latest"}, "ending offset not valid in streaming queries"),
    (PLAIN | {"endingTimestamp": "5"}, "ending timestamp not valid in streaming queries"),
    ({"path": "/archive"}, "Option 'path' is for batch queries"),
]


@pytest.mark.covers("S1")
@pytest.mark.parametrize(
    ("options", "message", "streaming"),
    [(*each, False) for each in MISTAKES + BATCH_MISTAKES]
    + [(*each, True) for each in MISTAKES[:-1] + STREAM_MISTAKES],
)
def test_mistakes_are_told_before_anything_runs(options: dict[str, str], message: str, streaming: bool) -> None:
    if streaming and "path" in options:
        message = "Option 'path'"
    with pytest.raises(ValueError, match=message):
        source_options(options, streaming=streaming)


def test_options_of_the_java_client_that_change_nothing_are_taken() -> None:
    given = {"kafka.session.timeout.ms": "10000", "kafka.max.poll.records": "5", "kafka.group.id": "g"}
    assert source_options(PLAIN | given | {"groupIdPrefix": "x"}, streaming=True).client is not None


def test_columns_are_chosen_in_their_usual_order() -> None:
    assert chosen_columns({}) == COLUMNS
    assert chosen_columns({"includeHeaders": "true"}) == (*COLUMNS, HEADERS)
    assert chosen_columns({"columns": "offset, VALUE ,headers"}) == ("value", "offset", "headers")


@pytest.mark.parametrize(("text", "seconds"), [("15m", 900), ("500", 0.5), ("10s", 10), ("2h", 7200), ("5ms", 0.005)])
def test_times_are_read_as_spark_reads_them(text: str, seconds: float) -> None:
    assert duration(text, "maxTriggerDelay") == seconds


def test_spark_and_arrow_agree_about_the_columns() -> None:
    from pyspark.sql.pandas.types import to_arrow_schema

    every = (*COLUMNS, HEADERS)
    assert to_arrow_schema(spark_schema(every), timezone="UTC").equals(arrow_schema(every))


def test_the_schema_is_fixed() -> None:
    source = HightideDataSource(PLAIN)
    assert source.reader(source.schema()) is not None
    with pytest.raises(ValueError, match="fixed schema"):
        source.reader(StructType([StructField("value", StringType())]))
    with pytest.raises(ValueError, match="Save mode Overwrite not allowed for Kafka"):
        HightideDataSource(BROKER | {"topic": "t"}).writer(StructType([VALUE]), overwrite=True)


VALUE = StructField("value", StringType())


@pytest.mark.covers("S2")
@pytest.mark.parametrize(
    ("fields", "topic", "message"),
    [
        ([VALUE], None, "topic option required when no 'topic' attribute is present"),
        ([StructField("other", StringType())], "t", "Required attribute 'value' not found"),
        (
            [StructField("value", IntegerType())],
            "t",
            r"value attribute unsupported type int. value must be a\(n\) string or",
        ),
        ([VALUE, StructField("partition", StringType())], "t", "partition attribute unsupported type string"),
        (
            [VALUE, StructField("headers", ArrayType(BinaryType()))],
            "t",
            "headers attribute unsupported type array<binary>",
        ),
        ([VALUE, StructField("topic", IntegerType())], None, "topic attribute unsupported type int"),
    ],
)
def test_columns_that_can_not_be_written_are_told(fields: list[StructField], topic: str | None, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        check_columns(StructType(fields), topic)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "t"}, "Option 'kafka.bootstrap.servers' must be specified for configuring Kafka producer"),
        (BROKER | {"topic": "t", "kafka.acks": "1", "kafka.enable.idempotence": "true"}, "Must set acks to all"),
        (BROKER | {"topic": "t", "kafka.acks": "2"}, "one of all, -1, 0, 1"),
        (BROKER | {"topic": "t", "kafka.compression.type": "rar"}, "one of none, gzip, snappy, lz4, zstd"),
        (BROKER | {"topic": "t", "kafka.key.serializer": "x"}, "'key.serializer' is not supported as keys"),
        (BROKER | {"topic": "t", "kafka.transactional.id": "x"}, "'transactional.id' is not supported"),
        (BROKER | {"topics": "t"}, "did you mean 'topic'"),
    ],
)
def test_mistakes_of_the_sink_are_told(options: dict[str, str], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        sink_options(options, StructType([VALUE, StructField("topic", StringType())]))


def test_the_producer_is_set_up_by_its_java_names() -> None:
    given = {"kafka.acks": "0", "kafka.compression.type": "zstd", "kafka.compression.zstd.level": "3"}
    options = sink_options(BROKER | given | {"topic": " t ", "checkpointLocation": "/c"}, StructType([VALUE]))
    assert options.topic == "t"
    assert (options.delivery.acks, options.delivery.idempotent) == (0, False)
    assert (options.delivery.codec, options.delivery.level) == (Codec.ZSTD, 3)
