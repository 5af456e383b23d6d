"""Producer ids for this node's clients, taken from blocks that the metadata log handed out."""

import asyncio
from collections.abc import Awaitable, Callable

Block = tuple[int, int]  # first id, number of ids


class ProducerIds:
    """Hands out each id of a block once; fetches the next block when one is used up.

    An id of a block that a crash left unused is never used: wasting ids is cheap, giving one twice loses data.
    """

    def __init__(self, allocate: Callable[[], Awaitable[Block]]) -> None:
        self._allocate = allocate
        self._next = 0
        self._left = 0
        self._lock = asyncio.Lock()

    async def next(self) -> int:
        """A producer id that nobody ever had."""
        async with self._lock:
            if not self._left:
                self._next, self._left = await self._allocate()
            self._next += 1
            self._left -= 1
            return self._next - 1
