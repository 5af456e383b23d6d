"""The coordinators of this node: which groups it speaks for, and where the others are.

A group belongs to a partition of `__consumer_offsets`, and whoever leads that partition coordinates it. Roles come from
replayed metadata, as for every partition; the topic is created when a coordinator is first asked for.
"""

import logging
from typing import TYPE_CHECKING

from hightide.coordination.partitioning import partition_of
from hightide.coordination.settings import GroupSettings
from hightide.errors import ApiError, ErrorCode
from hightide.limits import GROUP_MEMBERS_MAX
from hightide.types import NO_BROKER, OFFSETS_TOPIC, ZERO_UUID
from hightide.wire.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hightide.node.group_shards import GroupShard
    from hightide.node.node import Node
    from hightide.node.partitions import Partition

log = logging.getLogger("hightide.coordinators")


class Coordinators:
    """The partitions of `__consumer_offsets` that this node leads."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._shards: dict[int, GroupShard] = {}
        self._is_creating = False
        self.settings = _group_settings(node)

    def __iter__(self) -> "Iterator[GroupShard]":
        return iter(self._shards.values())

    # ------------------------------------------------------------------ who coordinates

    def shard(self, group_id: str) -> "GroupShard":
        """The coordinator of a group; ApiError when it is elsewhere, or not ready."""
        topic = self._node.image.topic_named(OFFSETS_TOPIC)
        shard = None if topic is None else self._shards.get(partition_of(group_id, len(topic.partitions)))
        if shard is None or self._node.is_stopping:
            raise ApiError(ErrorCode.NOT_COORDINATOR)
        shard.check()
        return shard

    def find(self, group_id: str) -> int:
        """The broker that coordinates a group; -1 when nobody does yet, and then the topic is on its way."""
        topic = self._node.image.topic_named(OFFSETS_TOPIC)
        if topic is None:
            self._create()
            return NO_BROKER
        leader = topic.partitions[partition_of(group_id, len(topic.partitions))].leader
        broker = self._node.image.brokers.get(leader)
        return NO_BROKER if broker is None or broker.fenced else leader

    def _create(self) -> None:
        if not self._is_creating:
            self._is_creating = True
            self._node.spawn(self._create_topic())

    async def _create_topic(self) -> None:
        node, settings = self._node, self._node.settings
        try:
            reply = await node.create_topics(
                CreateTopicsRequest(
                    topics=[
                        CreatableTopic(
                            name=OFFSETS_TOPIC,
                            num_partitions=settings.offsets_topic_num_partitions,
                            replication_factor=self._replicas(),
                            configs=[
                                CreatableTopicConfig(name=name, value=value)
                                for name, value in self._topic_settings().items()
                            ],
                        )
                    ]
                )
            )
            for result in reply.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    log.warning("%s was not created: %s", OFFSETS_TOPIC, result.error_message)
        except ApiError as error:
            log.warning("%s was not created: %s", OFFSETS_TOPIC, error)
        finally:
            self._is_creating = False

    def _topic_settings(self) -> dict[str, str]:
        return {
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": str(self._node.settings.offsets_topic_segment_bytes),
        }

    def _replicas(self) -> int:
        """As many as were asked for; where nobody asked, as many as there are brokers, up to Kafka's three."""
        settings = self._node.settings
        wanted = settings.offsets_topic_replication_factor
        if "offsets.topic.replication.factor" in settings.static:
            return wanted
        return min(wanted, max(len(self._node.image.live_brokers()), len(settings.brokers)))

    # ------------------------------------------------------------------ roles

    def role_taken(self, partition: "Partition") -> None:
        """A partition of the topic has the role that the newest metadata gives it."""
        leads = partition.replica.is_leader and partition.offline_reason is None
        known = self._shards.get(partition.index)
        if known is not None and (not leads or known.partition is not partition):
            if not self._node.rules.r14_state_ends_with_leadership and known.partition is partition:
                return
            del self._shards[partition.index]
            known.drop()
            known = None
        if leads and known is None:
            from hightide.node.group_shards import GroupShard

            shard = self._shards[partition.index] = GroupShard(self._node, partition)
            self._node.spawn(self._load(shard))

    async def _load(self, shard: "GroupShard") -> None:
        try:
            await shard.load()
        except ApiError as error:
            log.error("the groups of %s can't be loaded: %s", shard.partition, error)
            return
        if shard.is_loaded:
            await self._forget_topics(shard)

    def stop(self) -> None:
        """This node coordinates nothing any more: everybody who waits looks for another."""
        shards, self._shards = self._shards, {}
        for shard in shards.values():
            shard.drop()

    # ------------------------------------------------------------------ what is forgotten

    def configure(self) -> None:
        """The broker's settings changed."""
        self.settings = _group_settings(self._node)
        for shard in self:
            shard.machine.configure(self.settings)

    def topics_deleted(self) -> None:
        """Offsets go with their topics."""
        for shard in self:
            if shard.is_loaded:
                self._node.spawn(self._forget_topics(shard))

    async def _forget_topics(self, shard: "GroupShard") -> None:
        image = self._node.image

        def is_missing(name: str, topic_id: bytes) -> bool:
            if topic_id == ZERO_UUID:
                return image.topic_named(name) is None
            return topic_id not in image.topics

        await shard.sweep(lambda group: shard.machine.offsets.missing(group, is_missing))

    def expire(self, now_ms: int) -> None:
        """Forget what was kept long enough."""
        for shard in self:
            if shard.is_loaded:
                self._node.spawn(self._expire(shard, now_ms))

    async def _expire(self, shard: "GroupShard", now_ms: int) -> None:
        await shard.sweep(lambda group: shard.machine.offsets.expired(group, now_ms))


def _group_settings(node: "Node") -> GroupSettings:
    settings = node.settings
    return GroupSettings(
        min_session_timeout_ms=settings.group_min_session_timeout_ms,
        max_session_timeout_ms=settings.group_max_session_timeout_ms,
        max_size=min(settings.group_max_size, GROUP_MEMBERS_MAX),
        initial_rebalance_delay=settings.group_initial_rebalance_delay_ms / 1000,
        offsets_retention_ms=settings.offsets_retention_minutes * 60_000,
        offset_metadata_max_bytes=settings.offset_metadata_max_bytes,
    )
