"""CRC-32C, the checksum of record batches, over any buffer without copying it."""

from collections.abc import Callable
from typing import Final

from hightide.lone_extensions import load_alone


def _load() -> Callable[..., int]:
    try:
        return load_alone("crc32c", "_crc32c").crc32c  # type: ignore[no-any-return]
    except ImportError:
        from crc32c import crc32c as function

        return function  # type: ignore[no-any-return]


crc32c: Final = _load()
