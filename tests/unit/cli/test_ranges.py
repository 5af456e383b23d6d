"""What `--offsets` means."""

from datetime import UTC, datetime

import pytest

from hightide.cli.ranges import END, START, Kind, OffsetRange, Point, parse_range, resolve
from hightide.client.consumer import Range
from hightide.types import TopicPartition
from tests.unit.client.memory_cluster import MemoryCluster

NOW = 1_785_240_000_000
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def time(value: int) -> Point:
    return Point(Kind.TIME, value)


@pytest.mark.parametrize(
    ("text", "first", "last"),
    [
        ("start:end", START, END),
        (":", START, None),
        ("end:", END, None),
        ("5", Point(Kind.OFFSET, 5), END),
        ("5:10", Point(Kind.OFFSET, 5), Point(Kind.OFFSET, 10)),
        (":10", START, Point(Kind.OFFSET, 10)),
        ("-10", Point(Kind.BEFORE_END, 10), END),
        ("-10:-5", Point(Kind.BEFORE_END, 10), Point(Kind.BEFORE_END, 5)),
        ("@-1h:end", time(NOW - 3_600_000), END),
        ("@-1h30m:@-5s", time(NOW - 5_400_000), time(NOW - 5_000)),
        ("@-250ms", time(NOW - 250), END),
        ("@-2w:@now", time(NOW - 1_209_600_000), time(NOW)),
        ("@1785000000000:", time(1_785_000_000_000), None),
        ("@2026-07-28T12:00:00Z:end", time(1_785_240_000_000), END),
        ("@2026-07-28T12:00+02:00:@2026-07-28T12:00Z", time(1_785_232_800_000), time(1_785_240_000_000)),
    ],
)
def test_ranges(text: str, first: Point, last: Point | None) -> None:
    assert parse_range(text, NOW) == OffsetRange(first, last)


def test_a_time_without_a_zone_is_local() -> None:
    local = datetime(2026, 7, 28, 12, 30).astimezone()
    assert parse_range("@2026-07-28T12:30", NOW).first == time(int(local.astimezone(UTC).timestamp() * 1000))


@pytest.mark.parametrize("text", ["", "x", "5:x", "@", "@-1y", "1:2:3", "@tomorrow", "--5", "5-10"])
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(ValueError, match="is not a range of offsets"):
        parse_range(text, NOW)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("start:end", {T0: Range(10, 100), T1: Range(0, 0)}),
        ("start:", {T0: Range(10), T1: Range(0)}),
        ("end:", {T0: Range(100), T1: Range(0)}),
        ("20:30", {T0: Range(20, 30), T1: Range(20, 0)}),
        ("5:500", {T0: Range(10, 100), T1: Range(5, 0)}),
        ("-5", {T0: Range(95, 100), T1: Range(0, 0)}),
        ("-500:-50", {T0: Range(10, 50), T1: Range(0, 0)}),
    ],
)
def test_ranges_become_offsets_of_each_partition(text: str, expected: dict[TopicPartition, Range]) -> None:
    memory = MemoryCluster(topics={"t": 2})
    memory.starts[T0], memory.ends[T0] = 10, 100
    assert memory.run(resolve(memory.client(), [T0, T1], parse_range(text, NOW))) == expected
