"""The options `kafka.*`: settings of Kafka's Java client, of which some mean something to ours.

Three kinds: those that we honour; those that only tune the Java client and change nothing that a user could see; and
all others, which are refused by name, since ignoring `kafka.sasl.mechanism` would be worse than an error.
"""

from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple

from hightide.client.cluster import parse_bootstrap
from hightide.client.fetch import FetchLimits
from hightide.limits import FRAME_BYTES_MAX, KIB, MIB
from hightide.spark.blocking import ClientSettings
from hightide.wire.compression import Codec

PREFIX = "kafka."
PARTITION_FETCH_BYTES = 4 * MIB  # what decodes best: Java's 1 MiB is a call too often, more leaves the caches

_SHARED = {"bootstrap.servers", "client.id", "request.timeout.ms", "security.protocol"}
_CONSUMER = {
    "default.api.timeout.ms", "fetch.max.bytes", "fetch.max.wait.ms", "fetch.min.bytes", "group.id", "isolation.level",
    "max.partition.fetch.bytes",
}  # fmt: skip
_PRODUCER = {
    "acks", "batch.size", "compression.gzip.level", "compression.lz4.level", "compression.type",
    "compression.zstd.level", "delivery.timeout.ms", "enable.idempotence", "max.request.size",
}  # fmt: skip
_WITHOUT_EFFECT = {
    "allow.auto.create.topics", "auto.include.jmx.reporter", "buffer.memory", "check.crcs", "client.dns.lookup",
    "client.rack", "connections.max.idle.ms", "enable.metrics.push", "exclude.internal.topics", "group.instance.id",
    "group.protocol", "heartbeat.interval.ms", "linger.ms", "max.block.ms", "max.in.flight.requests.per.connection",
    "max.poll.interval.ms", "max.poll.records", "metadata.max.age.ms", "metadata.max.idle.ms",
    "metadata.recovery.strategy", "metric.reporters", "metrics.num.samples", "metrics.recording.level",
    "metrics.sample.window.ms", "partition.assignment.strategy", "partitioner.adaptive.partitioning.enable",
    "partitioner.availability.timeout.ms", "receive.buffer.bytes", "reconnect.backoff.max.ms", "reconnect.backoff.ms",
    "retries", "retry.backoff.max.ms", "retry.backoff.ms", "send.buffer.bytes", "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms", "socket.connection.setup.timeout.ms",
}  # fmt: skip
_OFFSET_RESET = (
    "Kafka option 'auto.offset.reset' is not supported. Instead set the source option 'startingOffsets' to 'earliest' "
    "or 'latest' to specify where to start: Structured Streaming manages which offsets are consumed, so that no data "
    "is missed when topics or partitions are added. 'startingOffsets' only applies when a new streaming query is "
    "started; resuming will always pick up from where the query left off."
)
_REFUSED = {
    "auto.offset.reset": _OFFSET_RESET,
    "key.deserializer": "Kafka option 'key.deserializer' is not supported as keys are deserialized as byte arrays. "
    "Use DataFrame operations to explicitly deserialize the keys.",
    "value.deserializer": "Kafka option 'value.deserializer' is not supported as values are deserialized as byte "
    "arrays. Use DataFrame operations to explicitly deserialize the values.",
    "key.serializer": "Kafka option 'key.serializer' is not supported as keys are serialized as byte arrays. "
    "Use DataFrame operations to explicitly serialize the keys into either strings or byte arrays.",
    "value.serializer": "Kafka option 'value.serializer' is not supported as values are serialized as byte arrays. "
    "Use DataFrame operations to explicitly serialize the values into either strings or byte arrays.",
    "enable.auto.commit": "Kafka option 'enable.auto.commit' is not supported",
    "interceptor.classes": "Kafka option 'interceptor.classes' is not supported",
    "transactional.id": "Kafka option 'transactional.id' is not supported: the sink names its producers itself",
}


class Delivery(NamedTuple):
    """How the sink sends: Java's settings, by their names."""

    acks: int = -1
    idempotent: bool = True
    codec: Codec = Codec.NONE
    level: int | None = None
    batch_bytes: int = 512 * KIB  # of records before compression; Java's 16 KiB would cost a request each
    request_bytes_max: int = 1 * MIB
    delivery_timeout: float = 120.0


def kafka_options(options: Mapping[str, str]) -> dict[str, str]:
    """What was given as `kafka.*`, without the prefix."""
    return {key[len(PREFIX) :]: value for key, value in options.items() if key.startswith(PREFIX)}


def client_settings(given: Mapping[str, str], role: str) -> ClientSettings:
    """The client of a `consumer` or a `producer`; ValueError tells what to do about an option that can't be."""
    known = _SHARED | (_CONSUMER if role == "consumer" else _PRODUCER)
    for name in given:
        if name in _REFUSED:
            raise ValueError(_REFUSED[name])
        if name not in known | _WITHOUT_EFFECT | _CONSUMER | _PRODUCER:
            near = get_close_matches(name, known | _WITHOUT_EFFECT, 1)
            hint = f"; did you mean 'kafka.{near[0]}'?" if near else ""
            raise ValueError(f"Kafka option '{name}' is not supported{hint}")
    if not given.get("bootstrap.servers", "").strip():
        raise ValueError(f"Option 'kafka.bootstrap.servers' must be specified for configuring Kafka {role}")
    protocol = given.get("security.protocol", "PLAINTEXT")
    if protocol.upper() != "PLAINTEXT":
        raise ValueError(f"Kafka option 'security.protocol' is '{protocol}': only PLAINTEXT is supported")
    parse_bootstrap(given["bootstrap.servers"])
    return ClientSettings(
        given["bootstrap.servers"],
        given.get("client.id", "hightide-spark"),
        number(given, "request.timeout.ms", 30_000, minimum=1) / 1000,
        number(given, "default.api.timeout.ms", 60_000, minimum=1) / 1000,
    )


def fetch_limits(given: Mapping[str, str]) -> FetchLimits:
    """How much a fetch may take."""
    return FetchLimits(
        max_wait_ms=number(given, "fetch.max.wait.ms", 500, minimum=0),
        min_bytes=number(given, "fetch.min.bytes", 1, minimum=0),
        max_bytes=min(number(given, "fetch.max.bytes", 50 * MIB, minimum=1), FRAME_BYTES_MAX // 2),
        partition_max_bytes=min(
            number(given, "max.partition.fetch.bytes", PARTITION_FETCH_BYTES, minimum=1), FRAME_BYTES_MAX // 2
        ),
    )


def delivery(given: Mapping[str, str]) -> Delivery:
    """How the sink sends; ValueError for what the Java client would not accept either."""
    acks_text = given.get("acks", "all")
    acks = {"all": -1, "-1": -1, "1": 1, "0": 0}.get(acks_text)
    if acks is None:
        raise ValueError(f"Kafka option 'acks' is '{acks_text}': it must be one of all, -1, 0, 1")
    idempotent = boolean(given, "enable.idempotence", acks == -1)
    if idempotent and acks != -1:
        raise ValueError("Must set acks to all in order to use the idempotent producer. Otherwise we cannot guarantee "
                         "idempotence.")  # fmt: skip
    name = given.get("compression.type", "none").lower()
    if name not in ("none", "gzip", "snappy", "lz4", "zstd"):
        raise ValueError(f"Kafka option 'compression.type' is '{name}': one of none, gzip, snappy, lz4, zstd")
    level = f"compression.{name}.level"
    usual = Delivery()
    return Delivery(
        acks,
        idempotent,
        Codec[name.upper()],
        number(given, level, 0) if level in given else None,
        number(given, "batch.size", usual.batch_bytes, minimum=0),
        number(given, "max.request.size", usual.request_bytes_max, minimum=1),
        number(given, "delivery.timeout.ms", 120_000, minimum=0) / 1000,
    )


def number(options: Mapping[str, str], name: str, default: int, *, minimum: int | None = None) -> int:
    """A whole number; ValueError names the option otherwise."""
    text = options.get(name)
    if text is None:
        return default
    try:
        value = int(text)
    except ValueError:
        raise ValueError(f"Option '{name}' is '{text}', which is not a whole number") from None
    if minimum is not None and value < minimum:
        raise ValueError(f"Option '{name}' is {value}: it must be at least {minimum}")
    return value


def boolean(options: Mapping[str, str], name: str, default: bool) -> bool:
    """true or false; ValueError names the option otherwise."""
    text = options.get(name, str(default)).strip().lower()
    if text not in ("true", "false"):
        raise ValueError(f"Option '{name}' is '{text}': it must be true or false")
    return text == "true"
