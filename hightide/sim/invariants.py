"""What must hold inside the nodes at any time, looked at from outside, and the lines of the timeline that show it.

I1, I5, I9, I10, I11, I12 and I15; I4 is asked at the end (`sim.wellness`).

Numbers as in RELIABILITY. Looked at several times a second of virtual time; what a client can see is checked by the
history instead. A node that is starting is not looked at: it has no role yet (R8).
"""

from collections.abc import Mapping
from typing import NamedTuple

from hightide.metadata.entities import Partition as AgreedPartition
from hightide.metadata.image import Image
from hightide.node.node import Node
from hightide.node.partitions import Partition
from hightide.sim.process import SimulatedProcess
from hightide.sim.trace import Trace
from hightide.types import NO_BROKER, TopicPartition

Key = tuple[bytes, int]


class Leadership(NamedTuple):
    """Who leads a partition, as far as anyone can see."""

    node: str
    epoch: int
    in_sync: tuple[int, ...]


class Watcher:
    """Remembers what was seen, and compares. `leader_changes` counts those after the first leader of a partition.

    `acknowledged` has the end of what clients were promised, by partition.
    """

    def __init__(self, trace: Trace, nodes: list[SimulatedProcess], acknowledged: Mapping[TopicPartition, int]) -> None:
        self.leader_changes = 0
        self._acknowledged = acknowledged
        self._image_checked = -1
        self._trace = trace
        self._nodes = nodes
        self._leaders: dict[Key, Leadership] = {}
        self._leader_of_epoch: dict[tuple[Key, int], str] = {}
        self._epochs: dict[tuple[str, Key], int] = {}
        self._high_watermarks: dict[tuple[Key, int, str], int] = {}

    def look(self) -> None:
        """Check every node that is up."""
        alive: dict[int, Node] = {}
        for process in self._nodes:
            if process.is_up and process.node is not None:
                self._look_at(process, process.node)
                alive[process.node.settings.node_id] = process.node
        if alive:
            newest = max((node.image for node in alive.values()), key=lambda image: image.offset)
            self._check_sets(newest)
            self._check_members(newest, alive)

    def _look_at(self, process: SimulatedProcess, node: Node) -> None:
        for partition in node.assignments:
            if partition.offline_reason is not None:
                continue
            key = (partition.topic_id, partition.index)
            self._check_offsets(process.name, partition)
            self._check_epoch(process.name, key, partition)
            if partition.replica.is_leader:
                self._check_leader(process.name, key, partition)

    # ------------------------------------------------------------------ the whole cluster

    def _check_sets(self, image: Image) -> None:
        """I9, once for each image."""
        if image.offset <= self._image_checked:
            return
        self._image_checked = image.offset
        for topic in image.topics.values():
            for index, agreed in enumerate(topic.partitions):
                for wrong in _wrong_sets(image, agreed):
                    self._trace.report("I9", f"{topic.name}-{index}: {wrong}")

    def _check_members(self, image: Image, alive: dict[int, Node]) -> None:
        """I1 and I5: the leader holds what was acknowledged, every member what is below its high watermark."""
        for topic in image.topics.values():
            for index, agreed in enumerate(topic.partitions):
                leader = _open(alive.get(agreed.leader), topic.topic_id, index)
                if leader is None or leader.replica.leader_epoch != agreed.leader_epoch:
                    continue
                promised = self._acknowledged.get(TopicPartition(topic.name, index), 0)
                if leader.log.end < promised:
                    what = f"{promised} records were acknowledged, its log ends at {leader.log.end}"
                    self._report("I1", f"broker {agreed.leader}", leader, what)
                for member in agreed.in_sync_replicas:
                    replica = _open(alive.get(member), topic.topic_id, index)
                    if replica is not None and replica.log.end < leader.high_watermark:
                        what = f"ends at {replica.log.end}, below the high watermark {leader.high_watermark}"
                        self._report("I5", f"broker {member}", replica, what)

    # ------------------------------------------------------------------ one node

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


def _open(node: Node | None, topic_id: bytes, index: int) -> Partition | None:
    """A partition that is open and well on a node."""
    partition = None if node is None else node.assignments.by_topic.get(topic_id, {}).get(index)
    return None if partition is None or partition.offline_reason is not None else partition


def _wrong_sets(image: Image, agreed: AgreedPartition) -> list[str]:
    in_sync, eligible = set(agreed.in_sync_replicas), set(agreed.eligible_leader_replicas)
    fenced = {broker.broker_id for broker in image.brokers.values() if broker.fenced}
    wrong = []
    if in_sync & eligible or not in_sync | eligible <= set(agreed.replicas):
        wrong.append(f"in sync {in_sync}, eligible {eligible} of {agreed.replicas}")
    if in_sync & fenced:
        wrong.append(f"in sync {in_sync}, of which {in_sync & fenced} are fenced")
    if agreed.leader != NO_BROKER and agreed.leader not in in_sync:
        wrong.append(f"led by {agreed.leader}, in sync {in_sync}")
    return wrong
