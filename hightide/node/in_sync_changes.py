"""Proposals of in-sync sets on their way to the controller (AlterPartition), gathered and sent one request at a time.

R6: a reply ends no proposal. Whatever comes back, or nothing, the machine goes on proposing the same set until a
replayed image or a new epoch ends it, so that losing a request or a reply is only a delay.
"""

import logging
from typing import TYPE_CHECKING

from hightide.errors import ApiError, ErrorCode
from hightide.replication.effects import ProposeInSync
from hightide.replication.events import InSyncAnswered
from hightide.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionResponse,
    BrokerState,
)
from hightide.wire.messages.alter_partition import AlterPartitionRequestPartitionData as AskedPartition
from hightide.wire.messages.alter_partition import AlterPartitionRequestTopicData as AskedTopic

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition

log = logging.getLogger("hightide.replication")

Key = tuple[bytes, int]


class InSyncChanges:
    """The proposals of all partitions that this node leads."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._waiting: dict[Key, tuple[Partition, ProposeInSync]] = {}
        self._is_sending = False

    def propose(self, partition: "Partition", proposal: ProposeInSync) -> None:
        """Send it with the next request; a newer proposal of the same partition takes its place."""
        self._waiting[partition.topic_id, partition.index] = (partition, proposal)
        if not self._is_sending:
            self._is_sending = True
            self._node.spawn(self._send())

    async def _send(self) -> None:
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, {}
                await self._send_batch(batch)
        finally:
            self._is_sending = False

    async def _send_batch(self, batch: "dict[Key, tuple[Partition, ProposeInSync]]") -> None:
        topics: dict[bytes, AskedTopic] = {}
        for (topic_id, index), (_, proposal) in batch.items():
            topics.setdefault(topic_id, AskedTopic(topic_id=topic_id)).partitions.append(
                AskedPartition(
                    partition_index=index,
                    leader_epoch=proposal.leader_epoch,
                    partition_epoch=proposal.partition_epoch,
                    new_isr_with_epochs=[
                        BrokerState(broker_id=member, broker_epoch=epoch) for member, epoch in proposal.in_sync
                    ],
                    whole_logs_synced=proposal.whole_logs_synced,
                )
            )
        request = AlterPartitionRequest(
            broker_id=self._node.settings.node_id, broker_epoch=self._node.broker_epoch, topics=list(topics.values())
        )
        now = self._node.clock.now
        try:
            reply = await self._node.controller_link.call(request, AlterPartitionResponse)
        except ApiError as error:
            for partition, _ in batch.values():
                partition.in_sync_answered(InSyncAnswered(error.code, now()))
            return
        if reply.error_code:
            for partition, _ in batch.values():
                partition.in_sync_answered(InSyncAnswered(ErrorCode(reply.error_code), now()))
            return
        for topic in reply.topics:
            for part in topic.partitions:
                entry = batch.get((topic.topic_id, part.partition_index))
                if entry is not None:
                    answer = InSyncAnswered(
                        ErrorCode(part.error_code), now(), part.leader_epoch, part.partition_epoch, tuple(part.isr)
                    )
                    entry[0].in_sync_answered(answer)
