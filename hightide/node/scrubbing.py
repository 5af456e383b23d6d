"""The scrub: stored bytes are looked at again and again, whether anybody reads them or not (I31).

A bit that turned in a replica nobody reads is found here and mended by its leader (R17), before the others are gone.
The first pass of a process life is brisk and looks at what the process found, since nobody knows what happened to the
disk meanwhile; the later ones, one an hour at most, look at everything and are slow enough to cost nothing. A step
takes about a millisecond.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from hightide.errors import CorruptionError
from hightide.limits import SCRUB_PASS_SECONDS_MIN, SCRUB_SECONDS_FIRST, SCRUB_SECONDS_LATER
from hightide.node.ports import Timer

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition
    from hightide.storage.verification import Scrubbed

LOGS_PER_STEP = 100  # looked at without finding a byte in them


class Scrubbing:
    """Goes round the partitions of a node for as long as it runs."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._steps = self._pass()
        self._seconds = SCRUB_SECONDS_FIRST
        self._is_first = True
        self._began = 0.0
        self._timer: Timer | None = None

    def start(self) -> None:
        """Begin."""
        self._began = self._node.clock.now()
        self._later(self._seconds)

    def _later(self, seconds: float) -> None:
        self._timer = self._node.clock.call_later(seconds, self._step)

    def stop(self) -> None:
        """No more."""
        if self._timer is not None:
            self._timer.cancel()

    def _step(self) -> None:
        if next(self._steps, None) is not None:
            self._later(self._seconds)
            return
        self._steps = self._pass()
        self._seconds, self._is_first = SCRUB_SECONDS_LATER, False
        now = self._node.clock.now()
        rest = max(self._seconds, self._began + SCRUB_PASS_SECONDS_MIN - now)
        self._began = now + rest
        self._later(rest)

    def _pass(self) -> Iterator[bool]:
        """Every log once; True after each step."""
        empty = 0
        for partition in list(self._node.assignments):
            done: Scrubbed | None = None
            while not partition.log.is_deleted and partition.offline_reason is None:
                empty = 0 if partition.log.size_bytes else empty + 1
                done = self._look(partition, done)
                if empty % LOGS_PER_STEP == 0:
                    yield True
                if done is None:
                    break

    def _look(self, partition: "Partition", done: "Scrubbed | None") -> "Scrubbed | None":
        try:
            return partition.log.scrub(done, found_only=self._is_first)
        except (CorruptionError, OSError) as error:
            partition.quarantine(error)
            return None
