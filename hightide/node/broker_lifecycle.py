"""A broker's life in the cluster: register, catch up, be unfenced, send heartbeats, and leave in order.

R8: one registration per process life, and no role before that registration is in the metadata this broker has replayed.
The lease (R16) runs from the send time of every answered heartbeat, less the age that the controller gave. A stop asks
the controller to move the leaders away first.
"""

import asyncio
import logging
from typing import TYPE_CHECKING

from hightide import limits
from hightide.errors import ApiError, ErrorCode
from hightide.metadata.replica_states import ReplicaState, Unready
from hightide.node.log_view import StoredLog
from hightide.node.ports import Timer
from hightide.replication.leases import UNLIMITED
from hightide.types import NO_BROKER, PartitionKey
from hightide.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    LogEnd,
    UnreadyReplica,
)
from hightide.wire.messages.broker_registration import (
    AffectedReplica,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)

if TYPE_CHECKING:
    from hightide.node.node import Node

log = logging.getLogger("hightide.lifecycle")

SHUTDOWN_SECONDS = 5.0  # how long a stop waits for its leaders to be moved
RETRY_SECONDS = 0.1
UNFENCE_RETRY_SECONDS = 0.2


class BrokerLifecycle:
    """One process life of a broker."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._wants_shutdown = False
        self._may_stop = asyncio.Event()
        self._due = asyncio.Event()
        self._is_stopped = False
        self._lease_end: Timer | None = None
        self._judged: set[PartitionKey] = set()
        """Replicas that were open when this broker registered."""
        self._doubts: dict[PartitionKey, Unready] = {}
        """Those found doubtful since then, and not told yet."""

    async def register(self) -> None:
        """Register, and wait until this broker has replayed its own registration."""
        node = self._node
        request = BrokerRegistrationRequest(
            broker_id=node.settings.node_id,
            cluster_id=node.directory.identity.cluster_id,
            incarnation_id=node.incarnation_id,
            listeners=[
                Listener(name=endpoint.name, host=endpoint.host, port=endpoint.port) for endpoint in node.endpoints()
            ],
            rack=node.settings.broker_rack,
            log_dirs=[node.directory.identity.directory_id],
            previous_broker_epoch=node.directory.state.broker_epoch,
            is_unclean=node.directory.is_unclean,
            affected_replicas=self._affected(),
        )
        self._judged = {PartitionKey(partition.topic_id, partition.index) for partition in node.assignments}
        while True:
            reply = await node.controller_link.call(request, BrokerRegistrationResponse, timeout=float("inf"))
            if not reply.error_code:
                break
            code = ErrorCode(reply.error_code)
            if code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION:
                raise ApiError(code, "the controller refused this broker's registration")
            # The session of the former life has not ended yet.
            await self._sleep(RETRY_SECONDS)
        node.broker_epoch = reply.broker_epoch
        node.directory.store_broker_epoch(reply.broker_epoch)
        node.directory.acknowledge_unclean()
        node.refetching.reported(
            PartitionKey(told.topic_id, told.partition_id)
            for told in request.affected_replicas
            if told.state in (ReplicaState.QUARANTINED, ReplicaState.BELOW_HIGH_WATERMARK)
        )
        while self._own_epoch() != reply.broker_epoch:
            await node.replayed(lambda: self._own_epoch() == reply.broker_epoch)

    def _affected(self) -> list[AffectedReplica]:
        """R7, R8: replicas that may have lost something since the last life, with where their logs end now."""
        node = self._node
        incomplete = set(node.refetching.under_way())
        told = [
            AffectedReplica(topic_id=key.topic_id, partition_id=key.partition, state=self._state(key, unready))
            for key, unready in node.offline.items()
            if key not in incomplete
        ]
        told += [
            AffectedReplica(topic_id=topic_id, partition_id=index, state=ReplicaState.BELOW_HIGH_WATERMARK)
            for topic_id, index in incomplete
        ]
        for partition in node.assignments:
            if not (partition.log.doubtful or node.directory.is_unclean):
                continue
            if (partition.topic_id, partition.index) in incomplete:
                continue
            view = StoredLog(partition.log)
            told.append(
                AffectedReplica(
                    topic_id=partition.topic_id,
                    partition_id=partition.index,
                    state=ReplicaState.DOUBTFUL if partition.log.doubtful else ReplicaState.UNCLEAN,
                    last_epoch=view.last_epoch,
                    end_offset=view.end,
                )
            )
        return told

    def _state(self, key: PartitionKey, unready: Unready) -> ReplicaState:
        """A short log has no claim to lead (R8), but the last one that has anything is not given up (R17)."""
        agreed = self._node.image.partition(*key)
        is_last = agreed is not None and agreed.members == (self._node.settings.node_id,)
        is_short = unready.state is ReplicaState.BELOW_HIGH_WATERMARK
        return ReplicaState.QUARANTINED if is_short and is_last else unready.state

    def _own_epoch(self) -> int:
        broker = self._node.image.brokers.get(self._node.settings.node_id)
        return -1 if broker is None else broker.epoch

    async def unfence(self) -> None:
        """Send heartbeats until the committed metadata says that this broker may take roles.

        The metadata that a life begins with may be older than its logs. Those it did not name are open now, and what
        is doubtful among them is told before anybody may elect this broker (R17).
        """
        node = self._node
        await node.assignments.settled()
        for partition in node.assignments:
            key = PartitionKey(partition.topic_id, partition.index)
            if partition.log.doubtful and key not in self._judged:
                self._doubts[key] = Unready(ReplicaState.DOUBTFUL, "batches behind a bad one were cut off")

        def is_unfenced() -> bool:
            broker = node.image.brokers.get(node.settings.node_id)
            return broker is not None and not broker.fenced

        while not is_unfenced():
            await self._beat()
            await node.replayed(is_unfenced, UNFENCE_RETRY_SECONDS)

    async def beat_regularly(self) -> None:
        """Heartbeats until the end, and at once when there is something to tell."""
        interval = self._node.settings.broker_heartbeat_interval_ms / 1000
        while not self._is_stopped:
            timer = self._node.clock.call_later(RETRY_SECONDS if self._wants_shutdown else interval, self._due.set)
            await self._due.wait()
            timer.cancel()
            self._due.clear()
            await self._beat()

    def hurry(self) -> None:
        """There is something to tell: do not wait for the next turn."""
        self._due.set()

    async def _beat(self) -> None:
        node = self._node
        sent_at = node.clock.now()
        request = BrokerHeartbeatRequest(
            broker_id=node.settings.node_id,
            broker_epoch=node.broker_epoch,
            current_metadata_offset=node.image.offset,
            want_fence=False,
            want_shut_down=self._wants_shutdown,
            applied_metadata_offset=node.assignments.applied_offset,
            unready_replicas=self._unready(),
            log_ends=self._ends_of_leaderless(),
        )
        timeout = node.settings.broker_session_timeout_ms / 2000
        try:
            reply = await node.controller_link.call(request, BrokerHeartbeatResponse, timeout=timeout)
        except ApiError as error:
            log.warning("no heartbeat was answered: %s", error)
            return
        if reply.error_code:
            log.warning("a heartbeat was refused: %s", ErrorCode(reply.error_code).name)
            if reply.error_code == ErrorCode.BROKER_ID_NOT_REGISTERED:
                log.critical("this broker was unregistered: the process ends; started again, it registers again")
                node.failed.set()
            return
        for told in request.unready_replicas:
            self._doubts.pop(PartitionKey(told.topic_id, told.partition_id), None)
        if reply.lease_age_ms >= 0:
            node.lease.extended(sent_at, reply.lease_age_ms / 1000, reply.lease_ms / 1000)
            self._await_lease_end()
        if reply.should_shut_down:
            self._may_stop.set()
        node.refetching.reported(
            PartitionKey(told.topic_id, told.partition_id)
            for told in request.unready_replicas
            if told.state is ReplicaState.QUARANTINED
        )

    def _await_lease_end(self) -> None:
        """For those who wait: whether a leader may write is asked of the clock at every append, not of this timer."""
        node = self._node
        if self._lease_end is not None:
            self._lease_end.cancel()
            self._lease_end = None
        if node.lease is not UNLIMITED and not self._is_stopped:
            left = max(0.0, node.lease.until - node.clock.now())
            self._lease_end = node.clock.call_later(left, self._lease_ended)

    def _lease_ended(self) -> None:
        self._lease_end = None
        if self._node.clock.now() < self._node.lease.until:  # a timer may be early by its resolution
            self._await_lease_end()
            return
        for partition in self._node.assignments:
            partition.lease_ended()

    def _unready(self) -> list[UnreadyReplica]:
        """Replicas that can't be trusted or opened here, and why (C8, R17)."""
        node = self._node
        told = [(key, unready) for key, unready in node.offline.items() if node.image.partition(*key) is not None]
        told += [
            (
                PartitionKey(partition.topic_id, partition.index),
                Unready(ReplicaState.QUARANTINED, reason, partition.offline_epoch),
            )
            for partition in node.assignments
            if (reason := partition.offline_reason) is not None
        ]
        told += self._doubts.items()
        return [
            UnreadyReplica(
                topic_id=key.topic_id,
                partition_id=key.partition,
                state=_bad_or_closed(unready),
                reason=unready.reason,
                leader_epoch=unready.leader_epoch,
            )
            for key, unready in told[: limits.UNREADY_REPLICAS_TOLD_MAX]
        ]

    def _ends_of_leaderless(self) -> list[LogEnd]:
        """Where the logs of partitions without a leader end, for an election among what is left (R7)."""
        node = self._node
        ends = []
        for topic_id, index in node.image.index.led_by(NO_BROKER):
            partition = node.assignments.by_topic.get(topic_id, {}).get(index)
            agreed = node.image.partition(topic_id, index)
            if partition is None or agreed is None or partition.offline_reason is not None:
                continue
            view = StoredLog(partition.log)
            ends.append(
                LogEnd(
                    topic_id=topic_id,
                    partition_id=index,
                    leader_epoch=agreed.leader_epoch,
                    last_epoch=view.last_epoch,
                    end_offset=view.end,
                )
            )
        return ends[: limits.UNREADY_REPLICAS_TOLD_MAX]

    async def leave(self) -> None:
        """Ask to stop, and wait until the leaders are elsewhere or it takes too long."""
        self._wants_shutdown = True
        timer = self._node.clock.call_later(SHUTDOWN_SECONDS, self._may_stop.set)
        await self._beat()
        await self._may_stop.wait()
        timer.cancel()
        self._is_stopped = True

    def stop(self) -> None:
        """No more heartbeats."""
        self._is_stopped = True
        if self._lease_end is not None:
            self._lease_end.cancel()

    async def _sleep(self, seconds: float) -> None:
        moment = asyncio.Event()
        timer = self._node.clock.call_later(seconds, moment.set)
        try:
            await moment.wait()
        finally:
            timer.cancel()


def _bad_or_closed(unready: Unready) -> ReplicaState:
    """What a heartbeat tells: whether a bad log is short or rotten matters to a registration only."""
    is_short = unready.state is ReplicaState.BELOW_HIGH_WATERMARK
    return ReplicaState.QUARANTINED if is_short else unready.state
