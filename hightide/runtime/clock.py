"""Real time, on the running event loop."""

import asyncio
import time
from collections.abc import Callable

from librt.time import time as wall_seconds


class LoopClock:
    """`node.ports.Clock` on an asyncio loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = time.monotonic
        self.call_soon = loop.call_soon

    def wall_ms(self) -> int:
        """Milliseconds since 1970."""
        return int(wall_seconds() * 1000)

    def call_later(self, seconds: float, callback: Callable[..., object], *args: object) -> asyncio.TimerHandle:
        """Call back on the loop."""
        return self._loop.call_later(seconds, callback, *args)
