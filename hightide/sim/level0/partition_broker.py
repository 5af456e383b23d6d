"""A simulated broker: a process on a disk, for as long as it lives.

The process does what the node does around the replica machines: registers, replays metadata, takes roles (R8), sends
heartbeats, fetches, syncs by group commit, and asks the controller for in-sync sets. Every wait is an event of the
kernel; nothing of a life outlives it but the disk.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from hightide.errors import ErrorCode
from hightide.metadata.entities import Partition, ResourceType, Topic
from hightide.metadata.image import Image
from hightide.metadata.replica_states import ReplicaState
from hightide.replication.effects import ProposeInSync
from hightide.replication.events import BrokersChanged, DurabilityChanged, InSyncAnswered, MinimumChanged, TimePassed
from hightide.replication.leases import Lease
from hightide.replication.roles import may_take_roles
from hightide.sim.level0.network import Connection
from hightide.sim.level0.partition_disk import Disk
from hightide.sim.level0.partition_fetching import FetchSession, ParkedFetches
from hightide.sim.level0.partition_log import PartitionLog, SyncPlan
from hightide.sim.level0.partition_replica import HostedReplica, Key
from hightide.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse, BrokerState
from hightide.wire.messages.alter_partition import AlterPartitionRequestPartitionData as ProposedPartition
from hightide.wire.messages.alter_partition import AlterPartitionRequestTopicData as ProposedTopic
from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse, LogEnd
from hightide.wire.messages.broker_registration import (
    AffectedReplica,
    BrokerRegistrationRequest,
    BrokerRegistrationResponse,
    Listener,
)

if TYPE_CHECKING:
    from hightide.sim.level0.partition_controllers import MetadataBatch
    from hightide.sim.level0.partitions import PartitionWorld

REQUEST_SECONDS = 1.5
RETRY_SECONDS = 0.2
TICK_SECONDS = 0.5
CHECKPOINT_SECONDS = 5.0


def incarnation_id(life: int) -> bytes:
    """What a life of a broker registers as; no two brokers have lives of the same number."""
    return b"life" + life.to_bytes(12, "big")


class BrokerProcess:
    """One life of a broker."""

    def __init__(self, world: "PartitionWorld", disk: Disk, life: int) -> None:
        self.world = world
        self.disk = disk
        self._kernel = world.kernel
        self._clock = disk.clock
        self.id = disk.broker_id
        self.life = life
        self.is_alive = True
        self.paused_until = 0.0
        self.broker_epoch = -1
        self.image = Image()
        self.applied = 0
        """How many batches of metadata were replayed."""
        self.is_fenced = True
        self.has_roles = False
        self.wants_stop = False
        self.replicas: dict[Key, HostedReplica] = {}
        self.lease = Lease(strict=world.options.lease_strict)
        self.parked = ParkedFetches(self)
        self._sessions: dict[tuple[int, bool], FetchSession] = {}
        self._dirty: dict[HostedReplica, None] = {}
        self._is_syncing = False
        self._controller = world.controllers.first_node
        self._connection: Connection | None = None
        self._requests: dict[int, tuple[int, Callable[[Any], None], Callable[[], None]]] = {}
        self._request_number = 0

    # ------------------------------------------------------------------ time

    def clock(self) -> float:
        """What this machine's clock shows."""
        return self._clock.read(self._kernel.now)

    def later(self, seconds: float, action: Callable[..., None], *arguments: Any) -> None:
        """A timer of this life: it does not fire while the process is stopped, nor after its end."""
        self._kernel.after(seconds, self._fire, action, arguments)

    def _fire(self, action: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        if not self.is_alive:
            return
        if self.paused_until > self._kernel.now:
            self._kernel.at(self.paused_until, self._fire, action, arguments)
            return
        action(*arguments)

    # ------------------------------------------------------------------ the start of a life

    def start(self) -> None:
        """Open the logs: what they hold is synced before it counts (R19); uncleanness is noted first (R8)."""
        disk = self.disk
        disk.is_unclean = disk.lost_power or (disk.is_unclean and self.world.rules.r8_uncleanness_stays)
        disk.lost_power = False
        for log in disk.logs.values():
            log.reopen()
        self._register()
        self._replay_metadata()
        self.later(TICK_SECONDS, self._tick)
        self.later(CHECKPOINT_SECONDS, self._checkpoint)

    def _register(self) -> None:
        disk = self.disk
        affected = [
            AffectedReplica(
                topic_id=log.topic_id,
                partition_id=index,
                state=self._state_of(log, index),
                last_epoch=log.last_epoch,
                end_offset=log.end,
            )
            for (_, index), log in disk.logs.items()
        ]
        request = BrokerRegistrationRequest(
            broker_id=self.id,
            incarnation_id=incarnation_id(self.life),
            listeners=[Listener(name="PLAINTEXT", host="h", port=9000 + self.id)],
            rack=None,
            log_dirs=[disk.directory_id],
            previous_broker_epoch=disk.stored_epoch,
            is_unclean=disk.is_unclean,
            affected_replicas=[replica for replica in affected if replica.state],
        )
        self._ask(request, self._registered, self._register)

    def _state_of(self, log: PartitionLog, index: int) -> ReplicaState:
        if log.end < self.disk.high_watermarks.get((log.topic_id, index), 0):
            return ReplicaState.BELOW_HIGH_WATERMARK
        return ReplicaState.UNCLEAN if self.disk.is_unclean else ReplicaState.INTACT

    def _registered(self, reply: BrokerRegistrationResponse) -> None:
        if reply.error_code:
            self.later(RETRY_SECONDS, self._register)
            return
        self.broker_epoch = reply.broker_epoch
        self.disk.is_unclean = False
        self.disk.stored_epoch = self.broker_epoch
        self._take_all_roles()
        self._beat()

    # ------------------------------------------------------------------ the controller

    def _ask(self, request: Any, replied: Callable[[Any], None], failed: Callable[[], None]) -> None:
        """One request to whoever is thought to be the controller; after silence, to the next."""
        network = self.world.network
        if self._connection is None or not self._connection.is_open:
            self._connection = network.connect(self.id, self._controller)
        self._request_number += 1
        number = self._request_number
        self._requests[number] = (self._controller, replied, failed)
        network.send(
            self._connection.request, self.world.controller_asked, self._controller, self, number, request,
            self._connection.response,
        )  # fmt: skip
        self.later(REQUEST_SECONDS, self._not_answered, number)

    def replied(self, number: int, reply: Any) -> None:
        """An answer of a controller; None says that it is none."""
        if number not in self._requests:
            return
        if reply is None:
            self.later(RETRY_SECONDS, self._not_answered, number)
            return
        _, replied, _ = self._requests.pop(number)
        replied(reply)

    def _not_answered(self, number: int) -> None:
        request = self._requests.pop(number, None)
        if request is not None:
            node, _, failed = request
            if node == self._controller:
                self._next_controller()
            failed()

    def _next_controller(self) -> None:
        if self._connection is not None:
            self.world.network.close(self._connection)
            self._connection = None
        self._controller = self.world.controllers.after(self._controller)

    def _beat(self) -> None:
        sent_at = self.clock()
        ends = [
            LogEnd(topic_id=key[0], partition_id=key[1], leader_epoch=machine.leader_epoch,
                   last_epoch=replica.log.last_epoch, end_offset=replica.log.end)
            for key, replica in self.replicas.items()
            if (machine := replica.machine).leader < 0
        ]  # fmt: skip
        request = BrokerHeartbeatRequest(
            broker_id=self.id,
            broker_epoch=self.broker_epoch,
            current_metadata_offset=self.image.offset,
            want_fence=False,
            want_shut_down=self.wants_stop,
            applied_metadata_offset=self.image.offset,
            log_ends=ends,
        )
        self._ask(request, lambda reply: self._beaten(sent_at, reply), lambda: None)
        self.later(self.world.options.heartbeat_seconds, self._beat)

    def _beaten(self, sent_at: float, reply: BrokerHeartbeatResponse) -> None:
        if reply.error_code in (ErrorCode.STALE_BROKER_EPOCH, ErrorCode.BROKER_ID_NOT_REGISTERED):
            self.world.restart(self.id)
            return
        if reply.error_code:
            return
        self.is_fenced = reply.is_fenced
        if reply.lease_age_ms >= 0 and not reply.is_fenced:
            self.lease.extended(sent_at, reply.lease_age_ms / 1000, reply.lease_ms / 1000)
        if reply.should_shut_down:
            self.world.stopped(self.id)

    def propose(self, replica: HostedReplica, proposal: ProposeInSync) -> None:
        """Ask the controller for an in-sync set; the machine asks again by itself."""
        part = ProposedPartition(
            partition_index=replica.key[1],
            leader_epoch=proposal.leader_epoch,
            partition_epoch=proposal.partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=b, broker_epoch=e) for b, e in proposal.in_sync],
            whole_logs_synced=proposal.whole_logs_synced,
        )
        topics = [ProposedTopic(topic_id=replica.key[0], partitions=[part])]
        request = AlterPartitionRequest(broker_id=self.id, broker_epoch=self.broker_epoch, topics=topics)
        self._ask(
            request,
            lambda reply: self._altered(replica, reply),
            lambda: replica.handle(InSyncAnswered(ErrorCode.REQUEST_TIMED_OUT, self.clock())),
        )

    def _altered(self, replica: HostedReplica, reply: AlterPartitionResponse) -> None:
        error = ErrorCode(reply.error_code)
        if error is not ErrorCode.NONE:
            replica.handle(InSyncAnswered(error, self.clock()))
            return
        for topic in reply.topics:
            for part in topic.partitions:
                replica.handle(
                    InSyncAnswered(
                        ErrorCode(part.error_code),
                        self.clock(),
                        part.leader_epoch,
                        part.partition_epoch,
                        tuple(part.isr),
                    )
                )

    # ------------------------------------------------------------------ metadata

    def _replay_metadata(self) -> None:
        self._ask(self.applied, self._metadata_came, self._replay_metadata)

    def _metadata_came(self, batches: "list[MetadataBatch]") -> None:
        """Replay everything, then act on the newest image, as the node does: what was in between was never so here."""
        if batches:
            self.applied += len(batches)
            self.image = batches[-1].image
            if self.has_roles:
                self._act(batches)
            else:
                self._take_all_roles()
        self._replay_metadata()

    def _act(self, batches: "list[MetadataBatch]") -> None:
        for batch in batches:
            for topic in batch.delta.topics_deleted:
                self._delete(topic)
        if any(batch.delta.brokers for batch in batches):
            for replica in self.replicas.values():
                if replica.machine.is_leader:
                    replica.handle(BrokersChanged(self.image.brokers))
        for key in dict.fromkeys(key for batch in batches for key in batch.delta.partitions):
            self._take_role(*key)
        for resource in dict.fromkeys(resource for batch in batches for resource in batch.delta.resources):
            if resource.type is ResourceType.TOPIC:
                self._configure(resource.name)

    def _take_all_roles(self) -> None:
        """R8: when the own registration is replayed, and not before."""
        if self.broker_epoch < 0 and self.world.rules.r8_roles_after_own_registration:
            return
        if self.has_roles or not may_take_roles(self.id, self.broker_epoch, self.image.brokers, self.world.rules):
            return
        self.has_roles = True
        for key in self.image.index.hosted_by(self.id):
            self._take_role(*key)

    def _take_role(self, topic_id: bytes, index: int) -> None:
        agreed = self.image.partition(topic_id, index)
        if agreed is None or self.id not in agreed.replicas:
            return
        topic = self.image.topics[topic_id]
        replica = self.replicas.get((topic_id, index)) or self._open(topic, index)
        minimum, _ = self.world.topic_settings(self.image, topic.name)
        replica.take_role(agreed, self.image.brokers, self.clock(), minimum)
        self._follow(replica, agreed)
        self.parked.wake(replica)

    def _open(self, topic: Topic, index: int) -> HostedReplica:
        world = self.world
        log = self.disk.open(topic.name, index, topic.topic_id, by_id=world.rules.r22_topic_id_before_first_byte)
        key = (topic.topic_id, index)
        minimum, synced_only = world.topic_settings(self.image, topic.name)
        replica = HostedReplica(
            self,
            key,
            log,
            world.truths[key],
            high_watermark=min(self.disk.high_watermarks.get(key, 0), log.end),
            synced_only=synced_only,
            minimum=minimum,
        )
        self.replicas[key] = replica
        return replica

    def _configure(self, name: str) -> None:
        topic = self.image.topic_named(name)
        if topic is None:
            return
        minimum, synced_only = self.world.topic_settings(self.image, name)
        for index, agreed in enumerate(topic.partitions):
            replica = self.replicas.get((topic.topic_id, index))
            if replica is None:
                continue
            is_behind = agreed.partition_epoch > replica.machine.partition_epoch
            if is_behind and self.world.rules.r23_minimum_with_its_sets:
                self._take_role(topic.topic_id, index)
            if replica.machine.min_in_sync_replicas != minimum:
                replica.handle(MinimumChanged(minimum))
            if replica.machine.synced_only != synced_only:
                replica.handle(DurabilityChanged(synced_only))
                replica.advanced()
                self._follow(replica, agreed)

    def _delete(self, topic: Topic) -> None:
        for index in range(len(topic.partitions)):
            replica = self.replicas.pop((topic.topic_id, index), None)
            for session in self._sessions.values():
                session.replicas.pop((topic.topic_id, index), None)
            log = self.disk.logs.get((topic.name, index))
            if log is not None and log.topic_id == topic.topic_id:
                del self.disk.logs[topic.name, index]
            if replica is not None:
                self._dirty.pop(replica, None)

    # ------------------------------------------------------------------ replication

    def _follow(self, replica: HostedReplica, agreed: Partition) -> None:
        """Fetch from whom it follows now, or from nobody."""
        machine = replica.machine
        wanted = None
        if not machine.is_leader and agreed.leader >= 0:
            wanted = self._sessions.get((agreed.leader, machine.synced_only))
            if wanted is None:
                wanted = FetchSession(self, agreed.leader, synced=machine.synced_only)
                self._sessions[agreed.leader, machine.synced_only] = wanted
        for session in self._sessions.values():
            if session is not wanted:
                session.replicas.pop(replica.key, None)
        if wanted is not None:
            wanted.replicas[replica.key] = replica
            wanted.kick()

    def fetch_answered(self, leader: int, synced: bool, number: int, parts: dict[Key, Any]) -> None:
        """A leader answered."""
        session = self._sessions.get((leader, synced))
        if session is not None:
            session.answered(number, parts)

    def wake(self, replica: HostedReplica) -> None:
        """News for the followers of a replica led here."""
        self.parked.wake(replica)

    # ------------------------------------------------------------------ group commit (R19)

    def dirty(self, replica: HostedReplica) -> None:
        """Its log has records to sync."""
        self._dirty[replica] = None
        if not self._is_syncing:
            self._begin_sync()

    def _begin_sync(self) -> None:
        plans = [(replica, replica.log.begin_sync()) for replica in self._dirty]
        self._dirty.clear()
        self._is_syncing = True
        self.later(self.world.sync_seconds(self.id), self._synced, plans)

    def _synced(self, plans: Iterable[tuple[HostedReplica, SyncPlan]]) -> None:
        self._is_syncing = False
        for replica, plan in plans:
            replica.log.end_sync(plan, self.world.rules)
            if self.replicas.get(replica.key) is replica:
                replica.advanced()
        if self._dirty and not self._is_syncing:
            self._begin_sync()
        for session in self._sessions.values():
            session.kick()

    def note_truncated(self, replica: HostedReplica) -> None:
        """R17: what is remembered of a log is lowered before it is cut."""
        key = replica.key
        if key in self.disk.high_watermarks:
            self.disk.high_watermarks[key] = min(self.disk.high_watermarks[key], replica.log.end)

    # ------------------------------------------------------------------ chores

    def _tick(self) -> None:
        now = self.clock()
        for replica in self.replicas.values():
            if replica.machine.is_leader:
                replica.handle(TimePassed(now))
        self.later(TICK_SECONDS, self._tick)

    def _checkpoint(self) -> None:
        for key, replica in self.replicas.items():
            self.disk.high_watermarks[key] = min(replica.machine.high_watermark, replica.log.synced_end)
        self.later(CHECKPOINT_SECONDS, self._checkpoint)
