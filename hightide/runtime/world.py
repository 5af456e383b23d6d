"""The real world, assembled: what a node needs to run in this process."""

import asyncio
import os
import resource

from hightide import limits
from hightide.runtime.clock import LoopClock
from hightide.runtime.compactor import ProcessCompactor
from hightide.runtime.files import OsFiles
from hightide.runtime.kernel_syncer import best_syncer
from hightide.runtime.network import SocketNetwork


class SystemEntropy:
    """`node.ports.Entropy` from the operating system."""

    def token(self, length: int) -> bytes:
        """Random bytes."""
        return os.urandom(length)


def _descriptors_for_connections() -> int:
    """Half of what the process may open: whoever connects very often must not keep a segment from being rolled."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, (soft - limits.DESCRIPTORS_KEPT) // 2)


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
        self.network.accepted_max = min(limits.CONNECTIONS_MAX, _descriptors_for_connections())
        self.files = OsFiles()
        self.syncer = best_syncer(loop)
        self.compactor = ProcessCompactor(loop)
        self.entropy = SystemEntropy()
