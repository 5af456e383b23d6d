"""CRC-32C, the checksum of record batches, over any buffer without copying it.

Two packages compute it. `fastcrc` folds 64 bytes at a time where the processor can (VPCLMULQDQ) and is twice as fast
with large batches; `crc32c` uses the processor's own instruction for it and runs everywhere. A wrong checksum would
refuse good batches and let bad ones pass, and wide instructions of other libraries have been wrong for some lengths
only: so `fastcrc` is used where it is installed and agrees with `crc32c`, on this processor, about buffers of all
lengths up to a few of its steps and some long ones.
"""

from collections.abc import Callable
from typing import Final, cast

from hightide.lone_extensions import load_alone

Checksum = Callable[..., int]  # of a buffer, continuing an earlier one where it is given as a second argument

SHORT_BYTES_MAX: Final = 600  # of every length below: no step, one, two, with every kind of rest
LONG_BYTES: Final = (1 << 10, 4093, 16_384, 65_521)


def _load() -> tuple[Checksum, str]:
    """The function to use, and the package that it comes from."""
    reference = _reference()
    try:
        quicker = cast("Checksum", load_alone("fastcrc", "fastcrc").crc32.iscsi)
    except (ImportError, AttributeError):
        return reference, "crc32c"
    return (quicker, "fastcrc") if agree(quicker, reference) else (reference, "crc32c")


def _reference() -> Checksum:
    try:
        return cast("Checksum", load_alone("crc32c", "_crc32c").crc32c)
    except ImportError:
        from crc32c import crc32c as function

        return cast("Checksum", function)


def agree(one: Checksum, other: Checksum) -> bool:
    """Whether both say the same of short and long buffers, aligned or not, from the beginning or continued."""
    data = memoryview(bytes((index * 167 + (index >> 8) * 59) & 0xFF for index in range(4096)) * 17)
    for length in (*range(SHORT_BYTES_MAX), *LONG_BYTES):
        piece = data[length % 17 : length % 17 + length]
        first = other(piece)
        if one(piece) != first or one(piece, first) != other(piece, first):
            return False
    return True


_loaded: Final = _load()
crc32c: Final = _loaded[0]
SOURCE: Final = _loaded[1]
"""The package that computes it."""
