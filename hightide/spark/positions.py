"""Where to begin and where to end, as people say it: by name, per partition, by one point in time, or by several."""

import json
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple

from hightide.client.offsets import EARLIEST, LATEST
from hightide.types import TopicPartition


class Kind(Enum):
    """How a position is given."""

    EARLIEST = "earliest"
    LATEST = "latest"
    OFFSETS = "offsets"  # per partition; -1 and -2 stand for latest and earliest
    TIMESTAMPS = "timestamps"  # per partition
    TIMESTAMP = "timestamp"  # one for all


class Position(NamedTuple):
    """One end of what is to be read."""

    kind: Kind
    per_partition: Mapping[TopicPartition, int] = {}  # offsets or timestamps
    timestamp: int = -1
    latest_when_too_young: bool = False  # where no record is as young as the timestamp; an error otherwise

    def only_names(self) -> int | None:
        """EARLIEST or LATEST, when that is all it says."""
        return {Kind.EARLIEST: EARLIEST, Kind.LATEST: LATEST}.get(self.kind)


def position(options: Mapping[str, str], side: str, default: Kind) -> Position:
    """The `starting` or `ending` position of the options, the most special one first, as in the stock connector."""
    strategy = options.get("startingoffsetsbytimestampstrategy", "error").lower()
    if strategy not in ("error", "latest"):
        raise ValueError(f"Option 'startingOffsetsByTimestampStrategy' is '{strategy}': it must be error or latest")
    lenient = strategy == "latest" or side == "ending"
    single = options.get(f"{side}timestamp")
    if single is not None:
        try:
            return Position(Kind.TIMESTAMP, timestamp=int(single.strip()), latest_when_too_young=lenient)
        except ValueError:
            raise ValueError(f"Expected a single long value, got {single}") from None
    several = options.get(f"{side}offsetsbytimestamp")
    if several is not None:
        example = '{"topicA": {"0": 123456789, "1": 123456789}, "topicB": {"0": 123456789, "1": 123456789}}'
        return Position(Kind.TIMESTAMPS, per_partition(several, example), latest_when_too_young=lenient)
    text = options.get(f"{side}offsets", default.value).strip()
    if text.lower() in (Kind.EARLIEST.value, Kind.LATEST.value):
        return Position(Kind(text.lower()))
    return Position(Kind.OFFSETS, per_partition(text, '{"topicA":{"0":23,"1":-1},"topicB":{"0":-2}}'))


def per_partition(text: str, example: str) -> dict[TopicPartition, int]:
    """Numbers per topic and partition from JSON; ValueError shows the example."""
    try:
        return {
            TopicPartition(topic, int(partition)): _whole(number)
            for topic, numbers in json.loads(text).items()
            for partition, number in numbers.items()
        }
    except (ValueError, AttributeError):
        raise ValueError(f"Expected e.g. {example}, got {text}") from None


def partitions(text: str) -> list[TopicPartition]:
    """Partitions per topic from JSON; ValueError shows an example."""
    try:
        return sorted(
            TopicPartition(topic, _whole(number)) for topic, numbers in json.loads(text).items() for number in numbers
        )
    except (ValueError, AttributeError, TypeError):
        raise ValueError(f'Expected e.g. {{"topicA":[0,1],"topicB":[0,1]}}, got {text}') from None


def _whole(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise ValueError(value)
    return value


def check_batch(start: Position, end: Position) -> None:
    """A batch has both ends: it can't begin at the latest record, nor end at the earliest, nor before it begins."""
    if start.kind is Kind.LATEST:
        raise ValueError("starting offset can't be latest for batch queries on Kafka")
    if end.kind is Kind.EARLIEST:
        raise ValueError("ending offset can't be earliest for batch queries on Kafka")
    for where, offset in start.per_partition.items() if start.kind is Kind.OFFSETS else ():
        if offset == LATEST:
            raise ValueError(f"startingOffsets for {where} can't be latest for batch queries on Kafka")
    for where, offset in end.per_partition.items() if end.kind is Kind.OFFSETS else ():
        if offset == EARLIEST:
            raise ValueError(f"ending offset for {where} can't be earliest for batch queries on Kafka")
    if start.kind is end.kind and start.kind in (Kind.OFFSETS, Kind.TIMESTAMPS):
        _check_both(start.per_partition, end.per_partition, "offset" if start.kind is Kind.OFFSETS else "timestamp")


def _check_both(start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], what: str) -> None:
    if start.keys() != end.keys():
        raise ValueError(
            "The specified start offset and end offset should have the same topic-partitions. Topic-partitions for "
            f"start offset: {named(start)}, topic-partitions for end offset: {named(end)}."
        )
    for where, first in start.items():
        last = end[where]
        if first > last >= 0:
            raise ValueError(
                f"The specified start {what} {first} is greater than the end {what} {last} for topic {where.topic} "
                f"partition {where.partition}."
            )


def named(where: Mapping[TopicPartition, object] | set[TopicPartition]) -> str:
    """Partitions as people read them."""
    return ", ".join(map(str, sorted(where))) or "none"
