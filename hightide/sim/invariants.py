"""What must hold inside the nodes at any time, looked at from outside, and the lines of the timeline that show it.

Numbers as in RELIABILITY. Looked at several times a second of virtual time; what a client can see is checked by the
history instead. A node that is starting is not looked at: it has no role yet (R8).
"""

from typing import NamedTuple

from hightide.node.node import Node
from hightide.node.partitions import Partition
from hightide.sim.process import SimulatedProcess
from hightide.sim.trace import Trace

Key = tuple[bytes, int]


class Leadership(NamedTuple):
    """Who leads a partition, as far as anyone can see."""

    node: str
    epoch: int
    in_sync: tuple[int, ...]


class Watcher:
    """Remembers what was seen, and compares. `leader_changes` counts those after the first leader of a partition."""

    def __init__(self, trace: Trace, nodes: list[SimulatedProcess]) -> None:
        self.leader_changes = 0
        self._trace = trace
        self._nodes = nodes
        self._leaders: dict[Key, Leadership] = {}
        self._leader_of_epoch: dict[tuple[Key, int], str] = {}
        self._epochs: dict[tuple[str, Key], int] = {}
        self._high_watermarks: dict[tuple[Key, int, str], int] = {}

    def look(self) -> None:
        """Check every node that is up."""
        for process in self._nodes:
            if process.is_up and process.node is not None:
                self._look_at(process, process.node)

    def _look_at(self, process: SimulatedProcess, node: Node) -> None:
        for partition in node.assignments:
            if partition.offline_reason is not None:
                continue
            key = (partition.topic_id, partition.index)
            self._check_offsets(process.name, partition)
            self._check_epoch(process.name, key, partition)
            if partition.replica.is_leader:
                self._check_leader(process.name, key, partition)

    def _check_offsets(self, name: str, partition: Partition) -> None:
        log, high_watermark = partition.log, partition.high_watermark
        if not log.start <= high_watermark <= log.end:
            self._report("I10", name, partition, f"start {log.start}, high watermark {high_watermark}, end {log.end}")
        if log.synced_end > log.end:
            self._report("I10", name, partition, f"synced end {log.synced_end} behind the end {log.end}")
        if partition.last_stable_offset > high_watermark:
            self._report(
                "I10", name, partition, f"last stable offset {partition.last_stable_offset} > {high_watermark}"
            )

    def _check_epoch(self, name: str, key: Key, partition: Partition) -> None:
        epoch = partition.replica.leader_epoch
        if epoch < 0:
            return
        before = self._epochs.get((name, key), -1)
        if epoch < before:
            self._report("I11", name, partition, f"leader epoch fell from {before} to {epoch}")
        self._epochs[name, key] = epoch

    def _check_leader(self, name: str, key: Key, partition: Partition) -> None:
        replica = partition.replica
        epoch = replica.leader_epoch
        first = self._leader_of_epoch.setdefault((key, epoch), name)
        if first != name:
            self._report("I12", name, partition, f"leads in epoch {epoch}, in which {first} led")
        high_watermark = partition.high_watermark
        before = self._high_watermarks.get((key, epoch, name), 0)
        if high_watermark < before:
            self._report("I15", name, partition, f"high watermark fell from {before} to {high_watermark}")
        self._high_watermarks[key, epoch, name] = high_watermark
        self._tell(name, key, partition)

    def _tell(self, name: str, key: Key, partition: Partition) -> None:
        replica = partition.replica
        now = Leadership(name, replica.leader_epoch, tuple(replica.in_sync_replicas))
        before = self._leaders.get(key)
        if before == now or (before is not None and now.epoch < before.epoch):
            return
        self._leaders[key] = now
        if before is not None and before.epoch != now.epoch:
            self.leader_changes += 1
        in_sync = ",".join(map(str, now.in_sync))
        place = f"high watermark {partition.high_watermark}, end {partition.log.end}"
        self._trace.say(name, f"leads {partition} in epoch {now.epoch}, in sync {in_sync}, {place}")

    def _report(self, check: str, name: str, partition: Partition, what: str) -> None:
        self._trace.report(check, f"{name}, {partition}: {what}")
