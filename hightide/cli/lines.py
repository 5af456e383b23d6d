"""Standard input as lines, without blocking the event loop: what a person types is sent when they press Enter."""

import asyncio
import os
from collections.abc import AsyncIterator

from hightide.cli.failures import CommandError
from hightide.limits import FRAME_BYTES_MAX

CHUNK_BYTES = 256 * 1024


async def read_lines(descriptor: int) -> AsyncIterator[list[bytes]]:
    """Whole lines as they arrive, without their ends; the last one needs no newline."""
    rest = b""
    while chunk := await _read(descriptor):
        *lines, last = chunk.split(b"\n")
        if lines:
            lines[0] = rest + lines[0]
            rest = last
            yield lines
        else:
            rest += last
        if len(rest) > FRAME_BYTES_MAX:
            raise CommandError(f"a line of more than {FRAME_BYTES_MAX} bytes: no broker takes such a record")
    if rest:
        yield [rest]


async def _read(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        loop.add_reader(descriptor, ready.set)
    except PermissionError:  # a regular file is always ready, which epoll refuses to say
        return os.read(descriptor, CHUNK_BYTES)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
    return os.read(descriptor, CHUNK_BYTES)
