"""`--offsets FROM:TO`: which records to read, said in offsets, times or words.

FROM and TO are `start`, `end`, an offset, `-N` (N records before the end), or `@` with a time: `@-1h` (ago), `@now`,
`@2026-07-28T12:00` (local unless a zone follows), `@1785240000000` (milliseconds since 1970). TO is exclusive. A range
with a TO ends there or at the end of the log, whichever comes first; `FROM:` goes on for ever; `FROM` alone means
`FROM:end`.
"""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from enum import Enum
from typing import NamedTuple

from hightide.client.cluster import Cluster
from hightide.client.consumer import Range
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.types import NO_OFFSET, TopicPartition

_TIME = (
    r"@now|@-(?:\d+(?:ms|[smhdw]))+"
    r"|@\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?)?(?:Z|[+-]\d\d:\d\d)?|@\d+"
)
_POINT = rf"start|end|-?\d+|{_TIME}"
_RANGE = re.compile(rf"(?P<first>{_POINT})?(?P<to>:(?P<last>{_POINT})?)?")
_STEP = re.compile(r"(\d+)(ms|[smhdw])")
_STEP_MS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000, "w": 604_800_000}


class Kind(Enum):
    """What the number of a point means."""

    OFFSET = "offset"
    BEFORE_END = "records before the end"
    TIME = "milliseconds since 1970"


class Point(NamedTuple):
    """One end of a range."""

    kind: Kind
    value: int


START = Point(Kind.OFFSET, 0)
END = Point(Kind.BEFORE_END, 0)


class OffsetRange(NamedTuple):
    """What was asked for; without a last point, for ever."""

    first: Point
    last: Point | None


def parse_range(text: str, now_ms: int) -> OffsetRange:
    """The range that a text means; ValueError with a sentence when it means none."""
    match = _RANGE.fullmatch(text.strip())
    if match is None or not match.group():
        raise ValueError(
            f"{text!r} is not a range of offsets; write FROM:TO, each start, end, an offset, -N, @-1h or @2026-07-28"
        )
    first, last = match["first"], match["last"]
    beginning = _point(first, now_ms) if first else START
    if match["to"] is None:
        return OffsetRange(beginning, END)
    return OffsetRange(beginning, _point(last, now_ms) if last else None)


def parse_point(text: str, now_ms: int) -> Point:
    """One point that a text means; ValueError with a sentence when it means none."""
    if re.fullmatch(_POINT, text.strip()) is None:
        raise ValueError(f"{text!r} is no place in a log; write start, end, an offset, -N, @-1h or @2026-07-28")
    return _point(text.strip(), now_ms)


async def resolve_point(
    cluster: Cluster, partitions: Sequence[TopicPartition], point: Point
) -> dict[TopicPartition, int]:
    """The point as an offset of each partition, between its start and its end."""
    offsets = {}
    for where, (first, end) in (await resolve(cluster, partitions, OffsetRange(point, END))).items():
        assert end is not None  # the range has a last point
        offsets[where] = min(first, end)
    return offsets


async def resolve(
    cluster: Cluster, partitions: Sequence[TopicPartition], wanted: OffsetRange, *, read_committed: bool = False
) -> dict[TopicPartition, Range]:
    """The range as offsets of each partition."""

    async def ask(point: int) -> dict[TopicPartition, int]:
        found = await list_offsets(cluster, dict.fromkeys(partitions, point), read_committed=read_committed)
        return {where: answer.offset for where, answer in found.items()}

    starts, ends = await ask(EARLIEST), await ask(LATEST)

    async def offsets_of(point: Point) -> Callable[[TopicPartition], int]:
        if point.kind is Kind.TIME:
            by_time = await ask(point.value)
            return lambda where: ends[where] if by_time[where] == NO_OFFSET else by_time[where]
        if point.kind is Kind.BEFORE_END:
            return lambda where: max(starts[where], ends[where] - point.value)
        return lambda where: max(starts[where], point.value)

    first = await offsets_of(wanted.first)
    if wanted.last is None:
        return {where: Range(first(where)) for where in partitions}
    last = await offsets_of(wanted.last)
    return {where: Range(first(where), min(last(where), ends[where])) for where in partitions}


def _point(text: str, now_ms: int) -> Point:
    if text == "start":
        return START
    if text == "end":
        return END
    if text.startswith("@"):
        return Point(Kind.TIME, _time_ms(text[1:], now_ms))
    if text.startswith("-"):
        return Point(Kind.BEFORE_END, int(text[1:]))
    return Point(Kind.OFFSET, int(text))


def _time_ms(text: str, now_ms: int) -> int:
    if text == "now":
        return now_ms
    if text.isdigit():
        return int(text)
    if text.startswith("-"):
        return max(0, now_ms - sum(int(count) * _STEP_MS[unit] for count, unit in _STEP.findall(text)))
    return int(datetime.fromisoformat(text).astimezone().timestamp() * 1000)
