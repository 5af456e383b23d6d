"""R17: a replica whose stored bytes are bad is fetched again from its leader; what it had is kept until that is done.

| the replica                                   | what happens here                                                  |
|-----------------------------------------------|--------------------------------------------------------------------|
| is found bad                                  | closed; told with the next heartbeat, or with the registration     |
| is known as bad, in a new epoch in no set     | its directory is set aside, an empty log follows the leader        |
| is being fetched again                        | joins like any follower; leads only if nobody else could           |
| is in sync again, with all that it had        | what was set aside is deleted                                      |
| is the only one who has the records           | stays closed, with an alarm: nothing is set aside, nothing deleted |

A directory that was set aside outlives a crash and says that the log beside it may be incomplete: until it is gone,
every registration tells that the replica lost records (R8), whatever the metadata believed of it before.
"""

import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING

from hightide.metadata.replica_states import ReplicaState
from hightide.types import NO_BROKER, NO_EPOCH, PartitionKey, TopicPartition

if TYPE_CHECKING:
    from hightide.metadata.entities import Partition as AgreedPartition
    from hightide.node.node import Node
    from hightide.node.partitions import Partition

log = logging.getLogger("hightide.replication")

WOULD_LEAD = "it is being fetched again after corruption, and others have what it lacks"


class Refetching:
    """The bad replicas of this node, and those on their way back."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._known_as_bad: set[PartitionKey] = set()
        """The controller was told: nobody lets them into an in-sync set any more."""
        self._former_ends: dict[PartitionKey, int] = {}
        """Those being fetched again, with the end they had."""

    def load(self) -> None:
        """At start: a former life may have begun what this one goes on with."""
        self._former_ends = dict.fromkeys(self._node.directory.partitions.quarantined(), 0)

    def under_way(self) -> list[PartitionKey]:
        """The replicas being fetched again."""
        return list(self._former_ends)

    def reported(self, keys: Iterable[PartitionKey]) -> None:
        """The controller knows of these bad replicas."""
        for key in keys:
            if key in self._known_as_bad:
                continue
            self._known_as_bad.add(key)
            if self._node.has_caught_up:  # R8: a registration that is not replayed yet gives no role
                self._node.assignments.look_again(key)

    def is_bad(self, key: PartitionKey, partition: "Partition | None") -> bool:
        """Whether the replica was found corrupt, at its opening or later."""
        if partition is not None:
            return partition.offline_reason is not None
        told = self._node.offline.get(key)
        return told is not None and told.state is not ReplicaState.NOT_READY

    def may_begin(self, key: PartitionKey, agreed: "AgreedPartition", former: "Partition | None") -> bool:
        """Whether somebody else leads, and the records here are nobody's last copy as far as the metadata say.

        What this node knows of the metadata may be old, and where the bad log ended may still reach the leader and let
        this replica into the in-sync set. Both end with a leader epoch in which it has never fetched.
        """
        own = self._node.settings.node_id
        epoch = NO_EPOCH if former is None else former.offline_epoch
        if agreed.leader_epoch <= epoch and self._node.rules.r17_refetch_in_a_new_epoch:
            return False
        return key in self._known_as_bad and agreed.leader not in (NO_BROKER, own) and own not in agreed.members

    def begin(self, key: PartitionKey, where: TopicPartition, former: "Partition | None") -> None:
        """Set the bad log aside; whoever called opens an empty one."""
        node = self._node
        end = 0
        if former is not None:
            node.fetchers.forget(former)
            node.commits.forget(former)
            end = former.log.end
            former.log.abandon()
        node.directory.quarantine(where, key.topic_id, node.entropy.token)
        node.offline.pop(key, None)
        self._known_as_bad.discard(key)
        self._former_ends[key] = max(end, self._former_ends.get(key, 0))
        log.warning("%s is fetched again from its leader; what was there is kept until it is in sync", where)

    def may_lead(self, key: PartitionKey, agreed: "AgreedPartition") -> bool:
        """A set that was agreed on before the corruption was known may still name this replica."""
        return key not in self._former_ends or agreed.members == (self._node.settings.node_id,)

    def look(self, key: PartitionKey, agreed: "AgreedPartition", partition: "Partition") -> None:
        """The replica took a role: it may have all that it had."""
        end = self._former_ends.get(key)
        own = self._node.settings.node_id
        if end is None or own not in agreed.in_sync_replicas or partition.log.end < end:
            return
        if partition.offline_reason is None:
            self.forget(key)
            log.info("%s is in sync again: what was kept of the corrupt log is deleted", partition)

    def forget(self, key: PartitionKey) -> None:
        """Nothing of it is needed any more. Idempotent."""
        self._known_as_bad.discard(key)
        if self._former_ends.pop(key, None) is not None:
            self._node.directory.partitions.remove_quarantined(key)

    def forget_topic(self, topic_id: bytes) -> None:
        """The topic was deleted."""
        for key in [key for key in self._former_ends if key.topic_id == topic_id]:
            self.forget(key)
