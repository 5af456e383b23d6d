"""Which partition of `__consumer_offsets` keeps a group: Kafka's formula, so that its tools look in the right place."""

from typing import Final

_INT32: Final = 1 << 32
_INT32_MIN: Final = -(1 << 31)


def java_hash(text: str) -> int:
    """`String.hashCode()`: over UTF-16 code units, in 32 bits."""
    value = 0
    encoded = text.encode("utf-16-be", "surrogatepass")
    for index in range(0, len(encoded), 2):
        value = (31 * value + (encoded[index] << 8 | encoded[index + 1])) % _INT32
    return value - _INT32 if value >= _INT32 // 2 else value


def partition_of(group_id: str, partitions: int) -> int:
    """The partition of a group. Java's abs of the smallest integer is itself; Kafka takes 0 for it."""
    value = java_hash(group_id)
    return (0 if value == _INT32_MIN else abs(value)) % partitions
