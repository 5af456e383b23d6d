"""The real world, assembled: what a node needs to run in this process."""

import asyncio
import os

from hightide import limits
from hightide.runtime.clock import LoopClock
from hightide.runtime.files import OsFiles
from hightide.runtime.network import SocketNetwork
from hightide.runtime.syncer import ThreadSyncer


class SystemEntropy:
    """`node.ports.Entropy` from the operating system."""

    def token(self, length: int) -> bytes:
        """Random bytes."""
        return os.urandom(length)


class RealWorld:
    """`node.ports.World` on the running loop."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        frame_bytes_max: int = limits.FRAME_BYTES_MAX,
        source_host: str | None = None,
    ) -> None:
        self.clock = LoopClock(loop)
        self.network = SocketNetwork(loop, frame_bytes_max, source_host)
        self.files = OsFiles()
        self.syncer = ThreadSyncer(loop)
        self.entropy = SystemEntropy()
