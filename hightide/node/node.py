"""One process: broker and controller, assembled.

Start, in this order: the log directory (whose is it, how was it left), the metadata log replayed into an image, every
log of that image opened and recovered, a new epoch of the one-voter quorum, this broker's registration with a new
incarnation, which raises the leader epoch of every partition it leads (R8), and only then the listeners. Stop is the
reverse: no new requests, answers to those in flight, everything synced, checkpoints, the clean mark.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Any

from hightide import limits
from hightide.errors import ApiError, ErrorCode
from hightide.metadata.entities import CLUSTER_DEFAULT, Endpoint, ResourceType, Topic
from hightide.metadata.entities import Partition as AgreedPartition
from hightide.metadata.image import Delta, Image
from hightide.metadata.replica_states import Unready
from hightide.metadata.settings.broker_values import CLUSTER_ONLY
from hightide.metadata.settings.topic_values import TopicSettings
from hightide.metadata.topic_names import check_topic_name
from hightide.node.apis import BROKER_APIS, CONTROLLER_APIS
from hightide.node.assignments import Assignments
from hightide.node.broker_lifecycle import BrokerLifecycle
from hightide.node.bursts import Burst
from hightide.node.checkpoints import Checkpointed, Checkpoints
from hightide.node.commits import GroupCommit
from hightide.node.controller_link import ControllerLink
from hightide.node.coordinators import Coordinators
from hightide.node.departures import Departures
from hightide.node.fetch_sessions import FetchSessions
from hightide.node.housekeeping import Housekeeping
from hightide.node.in_sync_changes import InSyncChanges
from hightide.node.metadata_log import SETTINGS as METADATA_LOG_SETTINGS
from hightide.node.metadata_log import MetadataLog
from hightide.node.metadata_snapshots import MetadataSnapshots
from hightide.node.partitions import Partition, PartitionWorld
from hightide.node.peers import Peers
from hightide.node.ports import Connection, Listener, World
from hightide.node.producer_ids import ProducerIds
from hightide.node.quorum import Quorum
from hightide.node.refetching import Refetching
from hightide.node.replica_fetcher import ReplicaFetchers
from hightide.node.sessions import Session
from hightide.node.snapshot_loading import SnapshotLoading
from hightide.node.snapshot_recovery import recover_snapshots
from hightide.node.stats import Stats
from hightide.node.synced_record import SyncedRecord
from hightide.node.waiting import Deadlines, Turn
from hightide.replication.leases import UNLIMITED, Lease
from hightide.replication.quorum import QuorumTimeouts
from hightide.replication.throttle import Throttle
from hightide.replication.voters import Voter, VoterSet
from hightide.rules import ALL_ON, Rules
from hightide.storage.directory import LogDirectory
from hightide.storage.log import Log
from hightide.storage.space import Condition
from hightide.types import METADATA_TOPIC, METADATA_TOPIC_ID, PartitionKey, TopicPartition
from hightide.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
from hightide.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from hightide.wire.produce import NodeEndpoint

if TYPE_CHECKING:
    from hightide.node.config import Settings
    from hightide.node.handlers.fetch import FetchAttempt

log = logging.getLogger("hightide.node")

BOOTSTRAP_SECONDS = 0.05
REPLAY_SECONDS = 5.0  # how long an answer waits for this broker to learn of what it did
STOP_SECONDS = 5.0  # how long a stop waits for answers in flight


class StartError(Exception):
    """The node can't start, and why, in a sentence for people."""


class Node:
    """A broker with its controller. Handlers get it as their world."""

    def __init__(
        self,
        world: World,
        settings: "Settings",
        rules: Rules = ALL_ON,
        reserve_bytes: int = limits.RESERVE_BYTES,
    ) -> None:
        self.settings = settings
        self.rules = rules
        self.clock = world.clock
        self.files = world.files
        self.entropy = world.entropy
        self.syncer = world.syncer
        self.compactor = world.compactor
        self.stats = Stats()
        self.deadlines = Deadlines(self.clock)
        self.turn = Turn(self.clock)
        self.burst = Burst(self.clock, self.turn, self.stats)
        self.fetch_sessions = FetchSessions(
            int.from_bytes(self.entropy.token(4)), settings.max_incremental_fetch_session_cache_slots
        )
        self.incarnation_id = self.entropy.token(16)
        """Names this process life."""
        self.parked_fetches: dict[FetchAttempt, None] = {}
        self.failed = asyncio.Event()
        """Set when the log directory is lost: the process ends."""
        self.listeners: list[Listener] = []
        self.offline: dict[PartitionKey, Unready] = {}
        """Partitions that could not be opened, and why."""
        self.refetching = Refetching(self)
        self.directory: LogDirectory
        self.metadata: MetadataLog
        self.producer_ids = ProducerIds(self._allocate_producer_ids)
        self._world = world
        self._reserve_bytes = reserve_bytes
        self._sessions: dict[Session, None] = {}
        self._per_host: Counter[str] = Counter()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._creating: set[str] = set()
        self.is_stopping = False
        self.broker_epoch = -1
        self.has_caught_up = not rules.r8_new_epoch_every_start
        self.network = world.network
        self.network.announce(self.burst)
        self.lease = UNLIMITED if len(settings.voters()) <= 1 else Lease(strict=settings.lease_strict)
        self.lifecycle: BrokerLifecycle | None = None
        self.controller_link = ControllerLink(self)
        self.fetchers = ReplicaFetchers(self)
        self.leader_throttle, self.follower_throttle = Throttle(), Throttle()
        self.in_sync_changes = InSyncChanges(self)
        self.coordinators = Coordinators(self)
        self.departures = Departures(self.clock)

    # ------------------------------------------------------------------ start

    async def start(self) -> None:
        """Be ready for clients when this returns."""
        settings, world = self.settings, self._world
        self.directory = LogDirectory.open(
            world.files,
            settings.log_directory,
            node_id=settings.node_id,
            token=self.entropy.token,
            cluster_id=settings.cluster_id,
            rules=self.rules,
            reserve_bytes=self._reserve_bytes,
        )
        self.directory.space.on_change = self._tell_of_space
        if not self.directory.space.accepts_records:
            self._tell_of_space()
        self._record = SyncedRecord(self.directory, self.clock, world.syncer, self.disk_failed)
        self.commits = GroupCommit(self.clock, world.syncer, self._record.record, self.disk_failed, self.rules)
        self.assignments = Assignments(
            self,
            PartitionWorld(
                settings.node_id,
                self.clock,
                self.directory,
                self.commits,
                self.disk_failed,
                self.turn,
                self.in_sync_changes.propose,
                self._cut_readers,
                self.tell_controller,
                self.rules,
                lease=self.lease,
                lag_time_max=settings.replica_lag_time_max_ms / 1000,
            ),
        )
        self.checkpoints = Checkpoints(self.directory, self.clock, world.syncer, self._logs, self.disk_failed)
        self.housekeeping = Housekeeping(self)
        self._open_metadata_log()
        self.refetching.load()
        self.assignments.open_all(self.image)
        self._listen()
        self._start_listeners(for_controllers=True)
        self.metadata.quorum.start()
        self.metadata.snapshots.start()
        self.checkpoints.start()
        if settings.is_controller:
            self.spawn(self._bootstrap())
        if settings.is_broker:
            self.lifecycle = lifecycle = BrokerLifecycle(self)
            await self._join(lifecycle)
            self.spawn(lifecycle.beat_regularly())
            self._start_listeners(for_controllers=False)
        self.housekeeping.start()

    async def _join(self, lifecycle: BrokerLifecycle) -> None:
        """Be a broker of the cluster; StartError when the disk fails meanwhile: it would wait for ever (R10)."""

        async def join() -> None:
            await lifecycle.register()
            await lifecycle.unfence()
            await self.assignments.settled()

        joining, failing = asyncio.ensure_future(join()), asyncio.ensure_future(self.failed.wait())
        try:
            await asyncio.wait([joining, failing], return_when=asyncio.FIRST_COMPLETED)
            if self.failed.is_set():
                raise StartError(self.directory.space.reason)
            await joining
        finally:
            joining.cancel()
            failing.cancel()

    def _open_metadata_log(self) -> None:
        settings, world = self.settings, self._world
        key = TopicPartition(METADATA_TOPIC, 0)
        path = self.directory.open_partition(key, METADATA_TOPIC_ID, self.entropy.token)
        facts = self.directory.facts(key, METADATA_TOPIC_ID)
        opened = Log.open(
            self.files, path, METADATA_TOPIC, 0, METADATA_TOPIC_ID,
            METADATA_LOG_SETTINGS._replace(
                segment_bytes=settings.metadata_log_segment_bytes, segment_ms=settings.metadata_log_segment_ms
            ),
            rules=self.rules, facts=facts, now_ms=self.clock.wall_ms(),
        )  # fmt: skip
        foundation = recover_snapshots(self.directory, opened, self.rules)
        addresses = {voter.node_id: (voter.host, voter.port) for voter in settings.voters()}
        self.controller_peers = Peers(
            world.network,
            self.clock,
            settings.node_id,
            addresses.get,
            settings.controller_quorum_request_timeout_ms / 1000,
        )
        self.metadata = MetadataLog(
            opened,
            foundation.image,
            settings,
            self.clock,
            self.commits,
            self.directory.space,
            self._publish,
            self.disk_failed,
            self.rules,
        )
        self.metadata.quorum = Quorum(
            opened,
            self.metadata,
            node_id=settings.node_id,
            voters=VoterSet(Voter(node_id) for node_id in addresses or [settings.node_id]),
            directory=self.directory,
            high_watermark=max(facts.high_watermark, foundation.image.offset + 1),
            snapshot=foundation.snapshot,
            clock=self.clock,
            syncer=world.syncer,
            commits=self.commits,
            peers=self.controller_peers,
            draw=lambda: int.from_bytes(self.entropy.token(4)) / 2**32,
            spawn=self.spawn,
            failed=self.disk_failed,
            timeouts=QuorumTimeouts(
                election=settings.controller_quorum_election_timeout_ms / 1000,
                fetch=settings.controller_quorum_fetch_timeout_ms / 1000,
            ),
            rules=self.rules,
        )
        snapshots = self.metadata.snapshots = MetadataSnapshots(self, self.metadata, foundation.store, world.syncer)
        self.metadata.quorum.snapshots = SnapshotLoading(self, self.metadata, snapshots, world.syncer)
        self.metadata.replay()
        self._take_dynamic_settings(self.image)

    async def _bootstrap(self) -> None:
        """A new cluster's first records, written by whoever is elected first; nothing on any later start."""
        while not self.image.features and not self.is_stopping:
            if self.metadata.is_active:
                try:
                    await self.metadata.propose(lambda controller: controller.bootstrap())
                except ApiError as error:
                    log.info("the first records are left to the next controller: %s", error)
            await self.metadata.quorum.leader_changed(BOOTSTRAP_SECONDS)
        self._warn_of_ignored_settings()

    def _listen(self) -> None:
        for address in self.settings.listener_addresses():
            accept = partial(self._accept, address.name)
            try:
                self.listeners.append(self._world.network.listen(address.host, address.port, accept))
            except OSError as error:
                for listener in self.listeners:
                    listener.close()
                raise StartError(f"can't listen on {address}: {error.strerror or error}") from error

    def _start_listeners(self, *, for_controllers: bool) -> None:
        for address, listener in zip(self.settings.listener_addresses(), self.listeners, strict=True):
            if (address.name in self.settings.controller_listener_names) == for_controllers:
                listener.start()

    @property
    def advertised_address(self) -> str:
        """Where clients reach this node first."""
        endpoint = self.endpoints()[0]
        return f"{endpoint.host}:{endpoint.port}"

    def endpoints(self) -> list[Endpoint]:
        """What clients are told: the advertised addresses, with the real port where 0 was asked for."""
        ports = {
            address.name: listener.port
            for address, listener in zip(self.settings.listener_addresses(), self.listeners, strict=True)
        }
        return [
            Endpoint(address.name, address.host, address.port or ports[address.name])
            for address in self.settings.advertised_addresses()
        ]

    def _warn_of_ignored_settings(self) -> None:
        """R23: after a cluster's first start a file no longer decides what all brokers must agree on; say so."""
        agreed = self.image.settings_of(ResourceType.BROKER, CLUSTER_DEFAULT)
        for name in sorted(CLUSTER_ONLY & self.settings.static.keys()):
            if self.settings.static[name] != agreed.get(name):
                log.warning(
                    "%s=%s is ignored: it is cluster metadata since the first start, where it is %s; change it with a "
                    "command, for all brokers at once", name, self.settings.static[name], agreed.get(name) or "not set",
                )  # fmt: skip

    # ------------------------------------------------------------------ stop

    async def stop(self) -> None:
        """Answer what is in flight, sync everything, and leave the clean mark."""
        if self.lifecycle is not None and len(self.image.brokers) > 1:
            await self.lifecycle.leave()
        self.is_stopping = True
        if self.lifecycle is not None:
            self.lifecycle.stop()
        self.fetchers.close()
        for listener in self.listeners:
            listener.close()
        for fetch in list(self.parked_fetches):
            fetch.expired()
        self.coordinators.stop()
        self.metadata.quorum.resign()
        for session in list(self._sessions):
            session.stop()
        await self._quiet()
        self.metadata.stop()
        self.controller_peers.close()
        self.checkpoints.stop()
        self.housekeeping.stop()
        self._record.stop()
        self.deadlines.close()
        for member in self._logs():
            member.log.close(clean=True)
        self.checkpoints.write_now()
        self.directory.close(clean=True)
        await self._end_tasks()

    async def _end_tasks(self) -> None:
        """Nothing of this node goes on after its stop."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _quiet(self) -> None:
        """Wait until every session has its answers and no sync is under way, but not for ever."""
        deadline = self.clock.now() + STOP_SECONDS
        while self.clock.now() < deadline:
            if not self._sessions and all(
                work.is_idle for work in (self.commits, self._record, self.checkpoints, self.metadata.snapshots)
            ):
                return
            moment = asyncio.get_running_loop().create_future()
            self.clock.call_later(0.005, _resolve, moment)
            await moment
        log.warning("stopping with %d connections still waiting", len(self._sessions))

    def _tell_of_space(self) -> None:
        """The operator hears of a disk that is full, and of room; of a disk that failed, `disk_failed` tells."""
        space = self.directory.space
        if space.condition is not Condition.OFFLINE:
            log.warning("the log directory is %s: %s", space.condition.value, space.reason or "there is room again")

    def disk_failed(self, error: Exception) -> None:
        """R10: a failed sync or checkpoint is final. The metadata log is in this directory, so the process ends."""
        if self.failed.is_set():
            return
        reason = f"the log directory {self.settings.log_directory} failed: {error}"
        self.directory.space.take_offline(reason)
        log.critical("%s; nothing more is written, the process ends", reason)
        for partition in self.assignments:
            partition.go_offline(reason)
        self.metadata.fail(ApiError(ErrorCode.KAFKA_STORAGE_ERROR, reason))
        self.failed.set()

    # ------------------------------------------------------------------ connections

    def _accept(self, listener_name: str, connection: Connection) -> Session | None:
        is_controllers = listener_name in self.settings.controller_listener_names
        session = Session(self, connection, listener_name, CONTROLLER_APIS if is_controllers else BROKER_APIS)
        settings = self.settings
        if (
            self.is_stopping
            or len(self._sessions) >= settings.max_connections
            or self._per_host[session.host] >= settings.max_connections_per_ip
        ):
            self.stats.connections_refused += 1
            return None
        self.stats.connections_accepted += 1
        self._sessions[session] = None
        self._per_host[session.host] += 1
        return session

    def session_closed(self, session: Session) -> None:
        """A session ended."""
        if self._sessions.pop(session, session) is None:
            self._per_host[session.host] -= 1
            if not self._per_host[session.host]:
                del self._per_host[session.host]

    @property
    def sessions(self) -> list[Session]:
        """All open sessions now."""
        return list(self._sessions)

    def spawn(self, work: Coroutine[Any, Any, Any], done: "Callable[[asyncio.Task[Any]], None] | None" = None) -> None:
        """Run something to its end; bounded, because a connection that waits for it is not read further.

        `done` gets the task then, with whatever went wrong in it.
        """
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(self._report if done is None else done)

    def _report(self, task: "asyncio.Task[Any]") -> None:
        if not task.cancelled() and task.exception() is not None:
            self.stats.unexpected_errors += 1
            log.error("an unexpected error", exc_info=task.exception())

    def _cut_readers(self) -> None:
        """A log is about to be cut: a connection that still sends from files might send what was cut (KAFKA-18723)."""
        for session in self.sessions:
            if session.connection.is_sending:
                session.connection.close()

    # ------------------------------------------------------------------ metadata

    @property
    def image(self) -> Image:
        """What the cluster agreed on, as far as it is committed."""
        return self.metadata.image

    def _publish(self, image: Image, delta: Delta) -> None:
        """A newer image is committed."""
        if any(resource.type is ResourceType.BROKER for resource in delta.resources):
            self._take_dynamic_settings(image)
            self.assignments.configure_all()
        if self.has_caught_up:
            self.assignments.apply(delta)
        elif self._is_registered(image):
            self.has_caught_up = True
            self.assignments.catch_up()
        if delta.partitions:
            self._hurry_followers()
        if delta.brokers:
            self.assignments.brokers_changed()
            if self.has_caught_up:
                self.departures.brokers_changed(image)
        if delta.topics_deleted:
            self.coordinators.topics_deleted()

    def tell_controller(self) -> None:
        """Roles were taken, for which creators of topics may wait (C9), or a replica went bad: do not wait to tell."""
        if self.lifecycle is not None:
            self.lifecycle.hurry()

    def _is_registered(self, image: Image) -> bool:
        """R8: older metadata than this life's registration gives no role, and says nothing about what is on disk."""
        broker = image.brokers.get(self.settings.node_id)
        return broker is not None and broker.incarnation_id == self.incarnation_id

    def _hurry_followers(self) -> None:
        """Roles changed: followers that wait here for records may have partitions to add, so let them ask again."""
        for fetch in [fetch for fetch in self.parked_fetches if fetch.is_follower]:
            fetch.expired()

    def _take_dynamic_settings(self, image: Image) -> None:
        self.settings = self.settings.with_dynamic(
            image.settings_of(ResourceType.BROKER, CLUSTER_DEFAULT),
            image.settings_of(ResourceType.BROKER, str(self.settings.node_id)),
        )
        now = self.clock.now()
        self.leader_throttle.limit(self.settings.leader_replication_throttled_rate, now)
        self.follower_throttle.limit(self.settings.follower_replication_throttled_rate, now)
        self.coordinators.configure()

    async def _allocate_producer_ids(self) -> tuple[int, int]:
        request = AllocateProducerIdsRequest(broker_id=self.settings.node_id, broker_epoch=self.broker_epoch)
        reply = await self.controller_link.call(request, AllocateProducerIdsResponse)
        if reply.error_code:
            raise ApiError(ErrorCode(reply.error_code))
        return reply.producer_id_start, reply.producer_id_len

    def check_topic_name(self, name: str) -> None:
        """ApiError when no topic may have this name."""
        check_topic_name(name)

    def auto_create(self, name: str) -> None:
        """Begin to create a topic that somebody asked for; ApiError when that can't be."""
        check_topic_name(name)
        if name not in self._creating:
            if len(self._creating) >= limits.TOPICS_CREATED_AT_ONCE_MAX:
                raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE)
            self._creating.add(name)
            self.spawn(self._auto_create(name))

    async def _auto_create(self, name: str) -> None:
        topic = CreatableTopic(name=name, num_partitions=-1, replication_factor=-1)
        try:
            reply = await self.create_topics(CreateTopicsRequest(topics=[topic]))
            for result in reply.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    log.warning("topic %s was not created: %s", name, result.error_message)
        finally:
            self._creating.discard(name)

    async def create_topics(self, request: CreateTopicsRequest) -> CreateTopicsResponse:
        """Create topics; this broker knows them, and its own partitions are open, when this returns."""
        reply = await self.controller_link.call(request, CreateTopicsResponse)
        if not request.validate_only:
            created = [topic.topic_id for topic in reply.topics if not topic.error_code]
            await self.replayed(lambda: all(topic_id in self.image.topics for topic_id in created))
        await self.assignments.settled()
        return reply

    async def replayed(self, condition: Callable[[], bool], timeout: float = REPLAY_SECONDS) -> None:
        """Return when the image of this node shows something, or after a while: it follows the controller closely."""
        deadline = self.clock.now() + timeout
        while not condition() and (left := deadline - self.clock.now()) > 0:
            await self.metadata.progressed(self.metadata.high_watermark, left)

    @property
    def controller_id(self) -> int:
        """Whom clients may ask as the controller: the active one where it is a broker, else this node forwards."""
        leader = self.metadata.quorum.leader
        return leader if leader in self.image.brokers else self.settings.node_id

    def broker_address(self, broker_id: int) -> tuple[str, int] | None:
        """Where another broker listens for brokers."""
        broker = self.image.brokers.get(broker_id)
        endpoint = None if broker is None else broker.endpoint(self.settings.inter_broker_listener)
        return None if endpoint is None else (endpoint.host, endpoint.port)

    def topic_overrides(self, name: str) -> Mapping[str, str]:
        """The settings that were made for one topic; ApiError when there is none of that name."""
        if self.image.topic_named(name) is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return self.image.settings_of(ResourceType.TOPIC, name)

    def topic_settings(self, name: str, image: Image | None = None) -> TopicSettings:
        """What counts for one topic now."""
        return TopicSettings((image or self.image).settings_of(ResourceType.TOPIC, name), self.settings)

    # ------------------------------------------------------------------ partitions

    def partition(self, topic: str | bytes, index: int) -> Partition:
        """A partition of this node by its topic's name or id; ApiError when it is not here."""
        table = self.assignments.by_topic.get(topic)
        if table is not None:
            partition = table.get(index)
            if partition is not None:
                return partition
        raise self.missing(topic, index)

    def missing(self, topic: str | bytes, index: int) -> ApiError:
        """Why a partition is not here."""
        agreed = self._topic(topic)
        if agreed is None:
            return ApiError(
                ErrorCode.UNKNOWN_TOPIC_ID if isinstance(topic, bytes) else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            )
        if not 0 <= index < len(agreed.partitions):
            return ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        unready = self.offline.get(PartitionKey(agreed.topic_id, index))
        if unready is not None:
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, unready.reason)
        return ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def offline_replicas(self, topic: Topic, index: int, agreed: AgreedPartition) -> list[int]:
        """Replicas that serve nobody: on brokers that are gone, and here those whose log could not be trusted."""
        brokers, own = self.image.brokers, self.settings.node_id
        offline = [replica for replica in agreed.replicas if replica not in brokers or brokers[replica].fenced]
        partition = self.assignments.by_topic.get(topic.topic_id, {}).get(index)
        is_broken = (topic.topic_id, index) in self.offline or (
            partition is not None and partition.offline_reason is not None
        )
        if is_broken and own in agreed.replicas and own not in offline:
            offline.append(own)
        return offline

    def leader_hint(self, topic: str | bytes, index: int) -> tuple[int, int] | None:
        """Who leads a partition and since which epoch, for a client that asked the wrong broker."""
        agreed = self._topic(topic)
        if agreed is None or not 0 <= index < len(agreed.partitions):
            return None
        partition = agreed.partitions[index]
        return partition.leader, partition.leader_epoch

    def addresses_of(self, brokers: Iterable[int], listener_name: str) -> list[NodeEndpoint]:
        """Where the hinted leaders listen, so that a client need not ask for metadata first (KIP-951)."""
        found = []
        for broker_id in sorted(set(brokers)):
            broker = self.image.brokers.get(broker_id)
            endpoint = None if broker is None else broker.endpoint(listener_name)
            if broker is not None and endpoint is not None:
                found.append(NodeEndpoint(broker_id, endpoint.host, endpoint.port, broker.rack))
        return found

    def _topic(self, topic: str | bytes) -> Topic | None:
        return self.image.topics.get(topic) if isinstance(topic, bytes) else self.image.topic_named(topic)

    def _logs(self) -> Iterator[Checkpointed]:
        yield self.metadata
        yield from self.assignments


def _resolve(moment: "asyncio.Future[None]") -> None:
    if not moment.done():
        moment.set_result(None)
