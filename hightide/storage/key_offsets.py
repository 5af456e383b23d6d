"""Where each key was written last, for as many keys as fit the memory that compaction may use.

A short key stands for itself, a long one for its 128-bit digest (Kafka uses MD5 for all): keys of any length cost the
same, and no short key can be mistaken for a digest.
"""

from hashlib import blake2b

from hightide.types import NO_OFFSET

DIGEST_BYTES = 16


class KeyOffsets:
    """Key to last offset over the offsets below `end`. Whoever puts keys in keeps `end`."""

    __slots__ = ("_keys_max", "_offsets", "end")

    def __init__(self, start: int, keys_max: int) -> None:
        self._offsets: dict[bytes, int] = {}
        self._keys_max = keys_max
        self.end = start

    def __len__(self) -> int:
        return len(self._offsets)

    def has_room_for(self, count: int) -> bool:
        """Whether that many keys more fit; the first always do, or compaction could never begin."""
        return not self._offsets or len(self._offsets) + count <= self._keys_max

    def put(self, key: bytes, offset: int) -> None:
        """Offsets rise, so the last one stays."""
        self._offsets[key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()] = offset

    def newest(self, key: bytes) -> int:
        """The last offset of this key; NO_OFFSET when it was not put in."""
        digest = key if len(key) < DIGEST_BYTES else blake2b(key, digest_size=DIGEST_BYTES).digest()
        return self._offsets.get(digest, NO_OFFSET)
