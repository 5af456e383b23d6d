"""A group's partition is the one that Kafka takes."""

import pytest

from hightide.coordination.partitioning import java_hash, partition_of


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("a", 97),
        ("hello", 99162322),
        ("polygenelubricants", -2147483648),
        ("é", 233),
        ("😀", 1772899),
        ("my-group-with-a-long-name", java_hash("my-group-with-a-long-name")),
    ],
)
def test_javas_hash(text: str, value: int) -> None:
    assert java_hash(text) == value


def test_partitions() -> None:
    assert partition_of("hello", 50) == 22
    assert partition_of("polygenelubricants", 50) == 0, "Java's abs of the smallest number is negative"
    assert {partition_of(f"group-{number}", 5) for number in range(100)} == set(range(5))
