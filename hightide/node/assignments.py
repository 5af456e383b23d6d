"""From committed metadata to open logs: an image changes, and partitions are opened, led, configured or deleted here.

A broker takes its roles from replayed metadata only (R8, C25). Opening a log syncs directories, so a large change is
carried out partition by partition with the loop's other work in between; `settled` tells when it is done.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from errno import EMFILE
from functools import partial
from typing import TYPE_CHECKING

from hightide.errors import CorruptionError, ErrorCode, ShortLogError, StorageError
from hightide.metadata.entities import ResourceType
from hightide.metadata.replica_states import ReplicaState, Unready
from hightide.node.compactions import synced_away
from hightide.node.config import log_settings
from hightide.node.partitions import Partition, PartitionWorld
from hightide.node.refetching import WOULD_LEAD
from hightide.storage.log import Log
from hightide.storage.syncing import DirectoryRemoval
from hightide.types import METADATA_TOPIC_ID, PartitionKey, TopicPartition

if TYPE_CHECKING:
    from hightide.metadata.entities import Topic
    from hightide.metadata.image import Delta, Image
    from hightide.node.node import Node

log = logging.getLogger("hightide.assignments")


class Assignments:
    """The partitions of this node, by topic name and by topic id."""

    def __init__(self, node: "Node", world: PartitionWorld) -> None:
        self._node = node
        self._world = world
        self._queue: list[Callable[[], None]] = []
        self._settled = asyncio.Event()
        self._settled.set()
        self.applied_offset = -1
        """Everything that the metadata up to here assigns to this node is open, or in `Node.offline` (C8)."""
        self._condemned: list[str] = []
        """Directories of deleted topics that are still there; the first is being removed."""
        self._attempted: set[PartitionKey] = set()
        self._attempts = 1
        self.by_topic: dict[str | bytes, dict[int, Partition]] = {}
        """Keyed by name and by id alike: requests use either, and text never equals bytes."""

    def __iter__(self) -> Iterator[Partition]:
        for topic, partitions in self.by_topic.items():
            if isinstance(topic, bytes):
                yield from partitions.values()

    # ------------------------------------------------------------------ from the image

    def open_all(self, image: "Image") -> None:
        """At start: open and recover every log that the last known metadata gives this node. No role yet.

        What is on disk may be newer than that metadata: a directory of another topic is left alone, and one that is
        missing is not made (R22).
        """
        directories = self._node.directory.partitions
        directories.remove_deleted()
        for topic in image.topics.values():
            for index, agreed in enumerate(topic.partitions):
                key = TopicPartition(topic.name, index)
                if self._node.settings.node_id in agreed.replicas and directories.topic_id(key) == topic.topic_id:
                    partition = self._open(image, topic, index)
                    # R8: what an earlier life led gives no role in this one.
                    if partition is not None and not self._world.rules.r8_new_epoch_every_start:
                        minimum = self._node.topic_settings(topic.name, image).min_insync_replicas
                        partition.take_role(agreed, image.brokers, minimum)

    def catch_up(self) -> None:
        """The metadata has reached this life of the broker: what it says now is what this node has to be."""
        topics = self._node.image.topics
        for topic_id in list(self.by_topic):
            if isinstance(topic_id, bytes) and topic_id not in topics:
                self._enqueue(partial(self._delete_topic, topic_id))
        self._enqueue(self._set_strays_aside)
        for topic in topics.values():
            for index in range(len(topic.partitions)):
                self._enqueue(partial(self._take_role, topic.topic_id, index))
            self._enqueue(partial(self._configure, topic.name))

    def apply(self, delta: "Delta") -> None:
        """A newer image was committed; each step looks at the newest one when its turn comes."""
        for topic in delta.topics_deleted:
            self._enqueue(partial(self._delete_topic, topic.topic_id))
        for key in delta.partitions:
            self._enqueue(partial(self._take_role, key.topic_id, key.partition))
        for resource in delta.resources:
            if resource.type is ResourceType.TOPIC:
                self._enqueue(partial(self._configure, resource.name))
        if self._settled.is_set():
            self.applied_offset = self._node.image.offset

    def brokers_changed(self) -> None:
        """Other lives of other brokers: every leader must know which positions still count (R4)."""
        brokers = self._node.image.brokers
        for partition in self:
            partition.brokers_changed(brokers)

    def configure_all(self) -> None:
        """The broker's own settings changed, and topics inherit them."""
        for topic in list(self.by_topic):
            if isinstance(topic, str):
                self._enqueue(partial(self._configure, topic))

    def look_again(self, key: PartitionKey) -> None:
        """Something besides the metadata decides what this node does with a partition, and it changed."""
        self._enqueue(partial(self._take_role, *key))

    def open_unready(self) -> None:
        """Try again to open logs that only lacked file descriptors: one, and more each time that it helped."""
        unready = [key for key, told in self._node.offline.items() if told.state is ReplicaState.NOT_READY]
        self._attempts = 1 if not unready or self._attempted.intersection(unready) else 2 * self._attempts
        self._attempted = set(unready[: self._attempts])
        for key in self._attempted:
            self.look_again(key)

    async def settled(self) -> None:
        """Return when every change known now was carried out."""
        await self._settled.wait()

    def _enqueue(self, step: Callable[[], None]) -> None:
        self._queue.append(step)
        if self._settled.is_set():
            self._settled.clear()
            self._node.spawn(self._work())

    async def _work(self) -> None:
        while self._queue:
            steps, self._queue = self._queue, []
            for step in steps:
                try:
                    step()
                except (OSError, StorageError) as error:
                    self._world.disk_failed(error)
                await asyncio.sleep(0)
        self._settled.set()
        self.applied_offset = self._node.image.offset
        self._node.tell_controller()

    # ------------------------------------------------------------------ steps

    def _set_strays_aside(self) -> None:
        """R22: a topic was deleted while this node was down, and it never learned that it had been created.

        The metadata that this life began with were older than its logs. Nothing is deleted: whoever gives a cluster the
        wrong metadata must not lose its records.
        """
        if not self._world.rules.r22_topic_id_before_first_byte:
            return
        directory, topics = self._node.directory, self._node.image.topics
        for found in directory.partitions.list():
            if found.topic_id is None or found.topic_id == METADATA_TOPIC_ID:
                continue
            if found.topic_id not in topics and found.topic_id not in self.by_topic:
                name = directory.set_aside(found.partition, found.topic_id, self._node.entropy.token)
                log.warning("%s belongs to no topic of this cluster; it is kept as %s", found.partition, name)

    def _take_role(self, topic_id: bytes, index: int) -> None:
        """Open the partition if it is new here, then take the role of the newest image, which may be newer still."""
        image = self._node.image
        wanted = image.partition(topic_id, index)
        if wanted is None or self._node.settings.node_id not in wanted.replicas:
            return
        key, topic, refetching = PartitionKey(topic_id, index), image.topics[topic_id], self._node.refetching
        partition = self.by_topic.get(topic_id, {}).get(index)
        if refetching.is_bad(key, partition) and refetching.may_begin(key, wanted, partition):
            refetching.begin(key, TopicPartition(topic.name, index), partition)
            partition = self._open(image, topic, index)
        elif partition is None and not refetching.is_bad(key, None):
            partition = self._open(image, topic, index)
        if partition is None:
            return
        if wanted.leader == self._node.settings.node_id and not refetching.may_lead(key, wanted):
            partition.quarantine(CorruptionError(WOULD_LEAD))
        partition.take_role(wanted, image.brokers, self._node.topic_settings(topic.name, image).min_insync_replicas)
        self._node.fetchers.follow(partition)
        if partition.is_internal:
            self._node.coordinators.role_taken(partition)
        refetching.look(key, wanted, partition)

    def _open(self, image: "Image", topic: "Topic", index: int) -> Partition | None:
        """Open and recover one log. A corrupt one is set apart: its partition is offline, with an alarm (R17).

        So is one for which the process may not open another file; any other failure is the disk's, and the caller's.
        """
        node = self._node
        settings = node.topic_settings(topic.name, image)
        key = TopicPartition(topic.name, index)
        try:
            if node.files.spare_descriptors() <= 0:
                raise OSError(EMFILE, "no more logs can be opened: other logs and clients need the descriptors left")
            path = node.directory.open_partition(key, topic.topic_id, node.entropy.token)
            facts = node.directory.facts(key, topic.topic_id)
            opened = node.directory.guarded(
                lambda: Log.open(
                    node.files, path, topic.name, index, topic.topic_id, log_settings(settings),
                    rules=self._world.rules, facts=facts, now_ms=node.clock.wall_ms(),
                )
            )  # fmt: skip
            if opened.start > facts.log_start:  # a crash came right after it had begun anew
                node.directory.remember_start(key, opened.start)
        except (CorruptionError, OSError) as error:
            self._not_opened(key, PartitionKey(topic.topic_id, index), error)
            return None
        node.offline.pop(PartitionKey(topic.topic_id, index), None)
        partition = Partition(
            self._world,
            opened,
            facts.high_watermark,
            synced_only=settings.durability == "fsync",
            min_in_sync_replicas=settings.min_insync_replicas,
        )
        partition.mark_compacted()
        partition.throttle(
            settings.leader_replication_throttled_replicas, settings.follower_replication_throttled_replicas
        )
        # One table under both keys: a partition that is added is seen under both.
        table = self.by_topic.setdefault(topic.topic_id, {})
        self.by_topic[topic.name] = table
        table[index] = partition
        return partition

    def _not_opened(self, where: TopicPartition, key: PartitionKey, error: CorruptionError | OSError) -> None:
        """What is corrupt or short is mended by a peer (R8, R17); what is merely closed is tried again (C8)."""
        state = ReplicaState.NOT_READY
        if isinstance(error, CorruptionError):
            is_short = isinstance(error, ShortLogError)
            state = ReplicaState.BELOW_HIGH_WATERMARK if is_short else ReplicaState.QUARANTINED
        if key not in self._node.offline:
            log.error("%s is offline, nothing of it is deleted: %s", where, error)
        self._node.offline[key] = Unready(state, str(error))

    def _configure(self, name: str) -> None:
        table = self.by_topic.get(name)
        if table is None or self._node.image.topic_named(name) is None:
            return
        settings = self._node.topic_settings(name)
        for partition in list(table.values()):  # which may open another log in its place
            self._catch_up_with(partition)
        for partition in table.values():
            partition.log.configure(log_settings(settings))
            partition.mark_compacted()
            partition.throttle(
                settings.leader_replication_throttled_replicas, settings.follower_replication_throttled_replicas
            )
            partition.configure(
                synced_only=settings.durability == "fsync", min_in_sync_replicas=settings.min_insync_replicas
            )
            self._node.fetchers.follow(partition)

    def _catch_up_with(self, partition: Partition) -> None:
        """R23: a minimum counts with the sets of its own image; their step may wait behind this one."""
        if not self._world.rules.r23_minimum_with_its_sets:
            return
        wanted = self._node.image.partition(partition.topic_id, partition.index)
        if wanted is not None and wanted.partition_epoch > partition.replica.partition_epoch:
            self._take_role(partition.topic_id, partition.index)

    def _delete_topic(self, topic_id: bytes) -> None:
        self._node.refetching.forget_topic(topic_id)
        for offline in [offline for offline in self._node.offline if offline.topic_id == topic_id]:
            del self._node.offline[offline]
        table = self.by_topic.pop(topic_id, {})
        condemned = []
        for partition in table.values():
            if self.by_topic.get(partition.topic) is table:
                del self.by_topic[partition.topic]
            partition.go_offline("the topic was deleted", ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            self._node.fetchers.forget(partition)
            if partition.is_internal:
                self._node.coordinators.role_taken(partition)
            self._world.commits.forget(partition)
            key = TopicPartition(partition.topic, partition.index)
            condemned.append(partition.log.condemn(self._node.entropy.token(16).hex()))
            self._node.directory.forget(key, topic_id)
        if condemned:
            self._node.files.sync_directory(self._node.directory.path)
        self._remove_later(condemned)

    def _remove_later(self, directories: list[str]) -> None:
        """What is left of deleted topics goes away beside everything else, one partition after the other.

        Freeing a segment of a GiB takes a quarter of a second: not on the loop, and never many at once, because what
        producers wait for is synced by the same threads. What a stop interrupts the next start finishes.
        """
        is_idle = not self._condemned
        self._condemned += directories
        if self._condemned and is_idle:
            self._node.spawn(self._remove_condemned())

    async def _remove_condemned(self) -> None:
        while self._condemned:
            error = await synced_away(self._node.syncer, [DirectoryRemoval(self._node.files, self._condemned[0])])
            del self._condemned[0]
            if error is not None:
                self._world.disk_failed(error)
