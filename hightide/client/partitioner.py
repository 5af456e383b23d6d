"""Which partition a record goes to: exactly as the Java client decides, so that keys meet across languages.

A key is hashed with murmur2; records without a key stick to one partition until a batch's worth of bytes went there
(KIP-794 without its adaptive part), which keeps batches large.
"""

_MASK = 0xFFFFFFFF
_MULTIPLIER = 0x5BD1E995
_SEED = 0x9747B28C


def murmur2(data: bytes) -> int:
    """The 32-bit murmur2 hash with the Java client's seed, unsigned."""
    length = len(data)
    hashed = (_SEED ^ length) & _MASK
    whole = length & ~3
    for position in range(0, whole, 4):
        word = int.from_bytes(data[position : position + 4], "little") * _MULTIPLIER & _MASK
        word = (word ^ word >> 24) * _MULTIPLIER & _MASK
        hashed = (hashed * _MULTIPLIER & _MASK) ^ word
    if length != whole:
        hashed = (hashed ^ int.from_bytes(data[whole:], "little")) * _MULTIPLIER & _MASK
    hashed = (hashed ^ hashed >> 13) * _MULTIPLIER & _MASK
    return hashed ^ hashed >> 15


def partition_for_key(key: bytes, partition_count: int) -> int:
    """The partition of a key; the sign bit is dropped first, as Java does."""
    return (murmur2(key) & 0x7FFFFFFF) % partition_count


class StickyChoice:
    """Where a topic's records without a key go: one partition until `switch_bytes` were put there, then the next."""

    def __init__(self, switch_bytes: int, start: int = 0) -> None:
        self._switch_bytes = switch_bytes
        self._partition = start
        self._put_bytes = 0

    def choose(self, partition_count: int, record_bytes: int) -> int:
        """The partition of the next record of that size."""
        if self._put_bytes >= self._switch_bytes:
            self._partition += 1
            self._put_bytes = 0
        self._put_bytes += record_bytes
        return self._partition % partition_count
