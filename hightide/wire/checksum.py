"""CRC-32C, the checksum of record batches, over any buffer without copying it.

The `crc32c` package asks `importlib.metadata` for its own version when it is imported, which costs a starting broker
some 80 ms. So the extension module inside it is loaded by itself; a release that lays its files out differently is
imported the ordinary way.
"""

from collections.abc import Callable
from importlib.machinery import PathFinder
from importlib.util import module_from_spec
from typing import Final


def _load() -> Callable[..., int]:
    package = PathFinder.find_spec("crc32c")
    locations = package.submodule_search_locations if package is not None else None
    spec = PathFinder.find_spec("crc32c._crc32c", locations) if locations is not None else None
    if spec is None or spec.loader is None:
        from crc32c import crc32c as function
    else:
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        function = module.crc32c
    return function  # type: ignore[no-any-return]


crc32c: Final[Callable[..., int]] = _load()
