"""A map that never changes: a change makes a new one and copies one bucket, not everything.

With 10,000 topics a change of one copies a list of 256 buckets and a dictionary of about 40 entries: some microseconds.
Buckets are chosen by the key's bytes, never by `hash`, so that iteration order is the same in every process.
"""

from collections.abc import Iterator, Mapping
from typing import Final, TypeVar, overload
from zlib import crc32

K = TypeVar("K")
V = TypeVar("V")
D = TypeVar("D")
_BUCKETS: Final = 256


class FrozenMap(Mapping[K, V]):
    """Keys are `bytes`, `str`, or tuples whose last part is one of them."""

    __slots__ = ("_buckets", "_count")

    def __init__(self, values: Mapping[K, V] | None = None) -> None:
        empty: dict[K, V] = {}
        self._buckets = [empty] * _BUCKETS  # shared, and copied before it is written
        self._count = 0
        if values:
            changed = self.changed(dict(values))
            self._buckets, self._count = changed._buckets, changed._count

    def __getitem__(self, key: K) -> V:
        return self._buckets[_bucket(key)][key]

    @overload
    def get(self, key: K, default: None = None, /) -> V | None: ...
    @overload
    def get(self, key: K, default: D, /) -> V | D: ...
    def get(self, key: K, default: D | None = None, /) -> V | D | None:
        """The value, or the default."""
        return self._buckets[_bucket(key)].get(key, default)

    def __contains__(self, key: object) -> bool:
        return key in self._buckets[_bucket(key)]

    def __iter__(self) -> Iterator[K]:
        for bucket in self._buckets:
            yield from bucket

    def __len__(self) -> int:
        return self._count

    def in_order(self) -> Iterator[tuple[K, V]]:
        """Everything in an order that equal maps share, whatever their histories, without sorting it all at once."""
        for bucket in self._buckets:
            yield from sorted(bucket.items())

    def __repr__(self) -> str:
        return f"FrozenMap({dict(self)!r})"

    def changed(self, changes: Mapping[K, V | None]) -> "FrozenMap[K, V]":
        """The map with these values set; None removes a key. Unchanged buckets are shared."""
        if not changes:
            return self
        other: FrozenMap[K, V] = FrozenMap()
        other._buckets, other._count = list(self._buckets), self._count
        own: set[int] = set()
        for key, value in changes.items():
            number = _bucket(key)
            if number not in own:
                own.add(number)
                other._buckets[number] = dict(other._buckets[number])
            bucket = other._buckets[number]
            if value is not None:
                other._count += key not in bucket
                bucket[key] = value
            elif bucket.pop(key, None) is not None:
                other._count -= 1
        return other


def _bucket(key: object) -> int:
    if isinstance(key, str):
        return crc32(key.encode()) % _BUCKETS
    if isinstance(key, bytes):
        return key[-1]  # ids are random, and the last byte of counted ones differs too
    return _bucket(key[-1]) if isinstance(key, tuple) else 0
