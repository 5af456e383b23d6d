"""The options of the source: the stock connector's names, defaults and checks, and three of our own.

Parsed once, when Spark makes the reader, so that a mistake is told before anything runs. Ours: `columns` (decode no
others), `isolation.level` (short for `kafka.isolation.level`) and `path` (segment files instead of a broker).
"""

import re
from collections.abc import Mapping
from difflib import get_close_matches
from typing import NamedTuple

from hightide.client.fetch import FetchLimits
from hightide.spark.blocking import ClientSettings
from hightide.spark.kafka_options import (
    PREFIX,
    boolean,
    client_settings,
    fetch_limits,
    kafka_options,
    number,
)
from hightide.spark.positions import Kind, Position, check_batch, partitions, position
from hightide.spark.schema import COLUMNS, HEADERS
from hightide.types import TopicPartition

_STRATEGIES = ("subscribe", "subscribepattern", "assign")
_SPELLING = (
    "subscribe", "subscribePattern", "assign", "startingTimestamp", "startingOffsetsByTimestamp", "startingOffsets",
    "endingTimestamp", "endingOffsetsByTimestamp", "endingOffsets", "startingOffsetsByTimestampStrategy",
    "failOnDataLoss", "minPartitions", "maxRecordsPerPartition", "maxOffsetsPerTrigger", "minOffsetsPerTrigger",
    "maxTriggerDelay", "groupIdPrefix", "includeHeaders", "kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs", "columns", "isolation.level", "path",
)  # fmt: skip
_KNOWN = {name.lower(): name for name in _SPELLING}
_DURATION = re.compile(r"(\d+)\s*(ms|s|m|min|h|d)?")
_UNIT_SECONDS = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3600, "d": 86400, None: 0.001}
POLL_TIMEOUT_MS = 120_000  # Spark's spark.network.timeout


class Subscription(NamedTuple):
    """Which partitions: of these topics, of the topics that match, or exactly these."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None
    partitions: tuple[TopicPartition, ...] = ()

    def __str__(self) -> str:
        if self.pattern is not None:
            return f"SubscribePattern[{self.pattern}]"
        if self.partitions:
            return f"Assign[{', '.join(map(str, self.partitions))}]"
        return f"Subscribe[{', '.join(self.topics)}]"


class Triggers(NamedTuple):
    """How much a micro-batch takes, and how long it waits for enough."""

    offsets_max: int | None = None
    offsets_min: int | None = None
    delay_max: float = 900.0


class SourceOptions(NamedTuple):
    """Everything a reader was told; picklable."""

    columns: tuple[str, ...]
    client: ClientSettings | None  # None: segment files
    path: str | None
    subscription: Subscription
    starting: Position
    ending: Position
    fail_on_data_loss: bool
    read_committed: bool
    partitions_min: int | None
    records_per_partition_max: int | None
    triggers: Triggers
    limits: FetchLimits
    poll_timeout: float
    offset_attempts: int
    offset_pause: float


def chosen_columns(options: Mapping[str, str]) -> tuple[str, ...]:
    """The columns in their usual order; `columns` chooses among them."""
    given = {key.lower(): value for key, value in options.items()}
    with_headers = boolean(given, "includeheaders", False)
    usual = (*COLUMNS, HEADERS) if with_headers else COLUMNS
    text = given.get("columns")
    if text is None:
        return usual
    wanted = [name.strip() for name in text.split(",") if name.strip()]
    spelled = {name.lower(): name for name in (*COLUMNS, HEADERS)}
    unknown = [name for name in wanted if name.lower() not in spelled]
    if unknown or not wanted:
        every = ", ".join((*COLUMNS, HEADERS))
        raise ValueError(f"Option 'columns' is '{text}': it must name some of {every}")
    names = {spelled[name.lower()] for name in wanted}
    return tuple(name for name in (*COLUMNS, HEADERS) if name in names)


def source_options(options: Mapping[str, str], *, streaming: bool) -> SourceOptions:
    """Check and parse; ValueError with a sentence that tells what to do."""
    given = {key.lower(): value for key, value in options.items()}
    _check_names(given)
    path = given.get("path")
    subscription = _subscription(given) if path is None else Subscription()
    kafka = kafka_options(given)
    starting = position(given, "starting", Kind.LATEST if streaming else Kind.EARLIEST)
    ending = position(given, "ending", Kind.LATEST)
    if streaming:
        if path is not None:
            raise ValueError("Option 'path' is for batch queries: segment files do not grow")
        if "endingoffsets" in given:
            raise ValueError("ending offset not valid in streaming queries")
        if "endingoffsetsbytimestamp" in given or "endingtimestamp" in given:
            raise ValueError("ending timestamp not valid in streaming queries")
    else:
        check_batch(starting, ending)
    if path is not None and (kafka or any(name in given for name in _STRATEGIES)):
        raise ValueError("Option 'path' reads segment files: it can't be combined with a subscription or a broker")
    if path is not None and any(name.startswith(("starting", "ending")) for name in given):
        raise ValueError("Option 'path' reads whole segment files: filter the column 'offset' for a part of them")
    isolation = given.get("isolation.level", kafka.get("isolation.level", "read_uncommitted")).lower()
    if isolation not in ("read_committed", "read_uncommitted"):
        raise ValueError(f"Option 'isolation.level' is '{isolation}': it must be read_committed or read_uncommitted")
    return SourceOptions(
        columns=chosen_columns(given),
        client=client_settings(kafka, "consumer") if path is None else None,
        path=path,
        subscription=subscription,
        starting=starting,
        ending=ending,
        fail_on_data_loss=boolean(given, "failondataloss", True),
        read_committed=isolation == "read_committed",
        partitions_min=_positive(given, "minPartitions"),
        records_per_partition_max=_positive(given, "maxRecordsPerPartition"),
        triggers=_triggers(given),
        limits=fetch_limits(kafka),
        poll_timeout=number(given, "kafkaconsumer.polltimeoutms", POLL_TIMEOUT_MS, minimum=0) / 1000,
        offset_attempts=number(given, "fetchoffset.numretries", 3, minimum=1),
        offset_pause=number(given, "fetchoffset.retryintervalms", 10, minimum=0) / 1000,
    )


def _check_names(given: Mapping[str, str]) -> None:
    for name in given:
        if not name.startswith(PREFIX) and name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, 1)
            hint = f"; did you mean '{_KNOWN[near[0]]}'?" if near else ""
            raise ValueError(f"Option '{name}' is not known to the source hightide{hint}")


def _subscription(given: Mapping[str, str]) -> Subscription:
    chosen = [name for name in _STRATEGIES if name in given]
    names = "subscribe, subscribePattern, assign"
    if not chosen:
        raise ValueError(
            f"One of the following options must be specified for Kafka source: {names}. See the docs for more details."
        )
    if len(chosen) > 1:
        raise ValueError(
            f"Only one of the following options can be specified for Kafka source: {names}. "
            "See the docs for more details."
        )
    text = given[chosen[0]]
    if chosen[0] == "assign":
        if not text.strip().startswith("{"):
            raise ValueError(f"No topicpartitions to assign as specified value for option 'assign' is '{text}'")
        return Subscription(partitions=tuple(partitions(text)))
    if chosen[0] == "subscribe":
        topics = tuple(dict.fromkeys(name.strip() for name in text.split(",") if name.strip()))
        if not topics:
            raise ValueError(f"No topics to subscribe to as specified value for option 'subscribe' is '{text}'")
        return Subscription(topics=topics)
    if not text.strip():
        raise ValueError(f"Pattern to subscribe is empty as specified value for option 'subscribePattern' is '{text}'")
    try:
        re.compile(text.strip())
    except re.error as error:
        raise ValueError(f"Option 'subscribePattern' is '{text}', which is no regular expression: {error}") from None
    return Subscription(pattern=text.strip())


def _positive(given: Mapping[str, str], name: str) -> int | None:
    if name.lower() not in given:
        return None
    value = number(given, name.lower(), 0)
    if value <= 0:
        raise ValueError(f"{name} must be positive")
    return value


def _triggers(given: Mapping[str, str]) -> Triggers:
    most, least = _positive(given, "maxOffsetsPerTrigger"), _positive(given, "minOffsetsPerTrigger")
    if most is not None and least is not None and least > most:
        raise ValueError(f"The value of minOffsetPerTrigger({least}) is higher than the maxOffsetsPerTrigger({most}).")
    return Triggers(most, least, duration(given.get("maxtriggerdelay", "15m"), "maxTriggerDelay"))


def duration(text: str, name: str) -> float:
    """Seconds from Spark's way to write a time: 500ms, 10s, 15m, 2h, 1d; a plain number is milliseconds."""
    found = _DURATION.fullmatch(text.strip().lower())
    if found is None:
        raise ValueError(f"Option '{name}' is '{text}': write a time such as 500ms, 10s, 15m or 2h")
    return int(found[1]) * _UNIT_SECONDS[found[2]]
