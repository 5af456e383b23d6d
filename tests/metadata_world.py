"""A cluster as the controller sees it: brokers with logs as lists of record ids, watched by I1, I2, I9 and I11.

Replication is kept simple (whoever fetches has the leader's log, every broker sees the newest image at once), so that
what is tested is the controller: whom it elects, whom it trusts, when it gives up. A violation carries the name of the
invariant. A partition that the controller declared a possible loss for begins anew with what its leader has.
"""

from collections.abc import Iterable
from typing import TypeVar

from hightide.errors import ErrorCode
from hightide.metadata.decision import Decision
from hightide.metadata.entities import LOST_DIRECTORY, Partition, ResourceType
from hightide.metadata.replica_states import ReplicaState, Unready
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_BROKER, PartitionKey
from hightide.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionRequestTopicData,
    AlterPartitionResponsePartitionData,
    BrokerState,
)
from hightide.wire.messages.broker_heartbeat import (
    BrokerHeartbeatRequest,
    BrokerHeartbeatResponse,
    LogEnd,
    UnreadyReplica,
)
from hightide.wire.messages.broker_registration import AffectedReplica, BrokerRegistrationRequest
from hightide.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.metadata_quorum import Quorum

Reply = TypeVar("Reply")
SESSION = 6.0


class ViolationError(AssertionError):
    """An invariant does not hold; `name` is its name in RELIABILITY.md."""

    def __init__(self, name: str, what: str) -> None:
        super().__init__(f"{name}: {what}")
        self.name = name


class Disk:
    """What outlives a process: logs, how much of each is synced, the directory's id and stored broker epoch."""

    def __init__(self, directory: bytes) -> None:
        self.directory = directory
        self.epoch = -1
        self.logs: dict[PartitionKey, list[int]] = {}
        self.synced: dict[PartitionKey, int] = {}
        self.corrupt: set[PartitionKey] = set()
        """Logs with a flipped bit below what was synced: closed at every start, nothing of them deleted (R17)."""

    def copy(self) -> "Disk":
        other = Disk(self.directory)
        other.epoch = self.epoch
        other.logs = {key: list(log) for key, log in self.logs.items()}
        other.synced = dict(self.synced)
        other.corrupt = set(self.corrupt)
        return other


class Broker:
    """One broker; `epoch` is that of its current life."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.disk = Disk(b"disk" + bytes(8) + broker_id.to_bytes(4, "big"))
        self.is_up = False
        self.is_unclean = False
        self.epoch = -1
        self.affected: dict[PartitionKey, ReplicaState] = {}
        self.unready: dict[PartitionKey, Unready] = {}


class World:
    """A controller and brokers. Every command is committed at once, then the invariants are checked."""

    def __init__(self, rules: Rules = ALL_ON, *, brokers: int = 3, minimum: int = 2, **settings: str) -> None:
        values = {name.replace("_", "."): text for name, text in settings.items()}
        self.quorum = Quorum({"min.insync.replicas": str(minimum), **values}, rules=rules)
        self.controller = self.quorum.controller
        self.now = 0.0
        self.brokers = {broker_id: Broker(broker_id) for broker_id in range(1, brokers + 1)}
        self.acked: dict[PartitionKey, set[int]] = {}
        self.losses: list[PartitionKey] = []
        self._records = 0
        self._lives = 0
        self._wipes = 0
        self._epochs: dict[PartitionKey, tuple[int, int]] = {}
        self._broker_epochs: dict[int, int] = {}
        self.commit(self.controller.bootstrap())
        self.controller.activated(self.now, 1)
        for broker_id in self.brokers:
            self.start(broker_id)

    # ------------------------------------------------------------------ commands

    def commit(self, decision: Decision[Reply]) -> Reply:
        """Append, replay, and look at the invariants."""
        if decision.records:
            self.quorum.commit(decision)
            for key in self.quorum.delta.possible_losses:
                self.losses.append(key)
                leader = self.partition(key).leader
                self.acked[key] = set(self.brokers[leader].disk.logs.get(key, ()))
            self.check()
        return decision.reply

    def partition(self, key: PartitionKey) -> Partition:
        """A partition that exists."""
        return self.quorum.image.topics[key.topic_id].partitions[key.partition]

    def create(self, name: str, replicas: list[int], **configs: str) -> PartitionKey:
        """A topic with one partition; its key."""
        settings: dict[str, str | None] = {n.replace("_", "."): text for n, text in configs.items()}
        response = self.quorum.create(name, assignments={0: replicas}, configs=settings)
        assert response.topics[0].error_code == 0, response.topics[0].error_message
        key = PartitionKey(response.topics[0].topic_id, 0)
        self.acked[key] = set()
        return key

    def configure(self, kind: ResourceType, name: str, **configs: str) -> None:
        """Set settings of a topic, or of the cluster under the empty name."""
        operations = [AlterableConfig(name=n.replace("_", "."), value=text) for n, text in configs.items()]
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=operations)
        request = IncrementalAlterConfigsRequest(resources=[resource])
        reply = self.commit(self.controller.incremental_alter_configs(request))
        assert reply.responses[0].error_code == 0, reply.responses[0].error_message

    # ------------------------------------------------------------------ lives

    def kill(self, broker_id: int) -> None:
        """kill -9: what was written stays."""
        self.brokers[broker_id].is_up = False

    def power_loss(self, broker_id: int) -> None:
        """What was not synced is gone."""
        broker = self.brokers[broker_id]
        broker.is_up, broker.is_unclean = False, True
        for key, log in broker.disk.logs.items():
            del log[broker.disk.synced.get(key, 0) :]

    def wipe(self, broker_id: int) -> None:
        """Another disk."""
        self._wipes += 1
        broker = self.brokers[broker_id]
        broker.is_up = False
        broker.disk = Disk(b"new disk" + self._wipes.to_bytes(8, "big"))
        broker.affected = {}

    def restore(self, broker_id: int, backup: Disk) -> None:
        """An old copy of the disk."""
        broker = self.brokers[broker_id]
        broker.is_up = False
        broker.disk = backup.copy()
        broker.affected = {}

    def damage(self, broker_id: int, key: PartitionKey, state: ReplicaState) -> None:
        """The newest record of a stopped broker's log is gone or unreadable, and its next start notices as `state`."""
        broker = self.brokers[broker_id]
        assert not broker.is_up
        if state is ReplicaState.QUARANTINED:
            broker.disk.corrupt.add(key)
            return
        broker.affected[key] = state
        log = broker.disk.logs.get(key, [])
        del log[-1:]
        broker.disk.synced[key] = min(broker.disk.synced.get(key, 0), len(log))

    def register(self, broker_id: int) -> bool:
        """A new life begins, fenced; False while another disk's life has a session."""
        broker = self.brokers[broker_id]
        self._lives += 1
        affected = dict(broker.affected)
        if broker.is_unclean:
            affected = {**dict.fromkeys(broker.disk.logs, ReplicaState.UNCLEAN), **affected}
        for key in broker.disk.corrupt:
            if broker.affected.get(key) is None:
                affected[key] = ReplicaState.QUARANTINED
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            incarnation_id=b"life" + bytes(8) + self._lives.to_bytes(4, "big"),
            log_dirs=[broker.disk.directory],
            previous_broker_epoch=broker.disk.epoch,
            is_unclean=broker.is_unclean,
            affected_replicas=[
                AffectedReplica(
                    topic_id=key.topic_id,
                    partition_id=key.partition,
                    state=state,
                    last_epoch=0,
                    end_offset=len(broker.disk.logs.get(key, ())),
                )
                for key, state in affected.items()
            ],
        )
        decision = self.controller.register_broker(request, len(self.quorum.log), now=self.now)
        if decision.reply.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION:
            assert broker.disk.directory not in self.quorum.image.brokers[broker_id].directories
            return False
        assert decision.reply.error_code == ErrorCode.NONE, ErrorCode(decision.reply.error_code).name
        broker.is_up = True
        reply = self.commit(decision)
        broker.epoch = broker.disk.epoch = reply.broker_epoch
        broker.is_unclean, broker.affected = False, {}
        broker.unready = dict.fromkeys(broker.disk.corrupt, Unready(ReplicaState.QUARANTINED, "rotten"))
        return True

    def close(self, broker_id: int, key: PartitionKey, state: ReplicaState) -> None:
        """A running broker finds that it cannot serve a replica, and tells."""
        broker = self.brokers[broker_id]
        broker.unready[key] = Unready(state, "found now", self.partition(key).leader_epoch)
        if state is ReplicaState.QUARANTINED:
            broker.disk.corrupt.add(key)
        self.heartbeat(broker_id)

    def repair(self, broker_id: int, key: PartitionKey) -> None:
        """An operator mends what was closed; the next start finds it well."""
        self.kill(broker_id)
        self.brokers[broker_id].disk.corrupt.discard(key)

    def start(self, broker_id: int) -> None:
        """Register, and take roles."""
        if self.register(broker_id):
            self.heartbeat(broker_id)

    def heartbeat(self, broker_id: int, *, want_shut_down: bool = False) -> BrokerHeartbeatResponse:
        """One heartbeat, with everything that a broker tells."""
        broker = self.brokers[broker_id]
        image = self.quorum.image
        waiting = [key for key in image.index.led_by(NO_BROKER) if key in image.index.hosted_by(broker_id)]
        request = BrokerHeartbeatRequest(
            broker_id=broker_id,
            broker_epoch=broker.epoch,
            current_metadata_offset=image.offset,
            applied_metadata_offset=image.offset,
            want_shut_down=want_shut_down,
            unready_replicas=[
                UnreadyReplica(
                    topic_id=key.topic_id,
                    partition_id=key.partition,
                    state=unready.state,
                    reason=unready.reason,
                    leader_epoch=unready.leader_epoch,
                )
                for key, unready in broker.unready.items()
            ],
            log_ends=[
                LogEnd(
                    topic_id=key.topic_id,
                    partition_id=key.partition,
                    leader_epoch=self.partition(key).leader_epoch,
                    last_epoch=0,
                    end_offset=len(broker.disk.logs.get(key, ())),
                )
                for key in waiting
            ],
        )
        response = self.commit(self.controller.heartbeat(request, self.now, 0.0))
        assert response.error_code == ErrorCode.NONE
        if response.should_shut_down:
            self.kill(broker_id)
        return response

    def beat(self, *, silent: Iterable[int] = ()) -> None:
        """Every running broker tells that it lives."""
        for broker in self.brokers.values():
            if broker.is_up and broker.broker_id not in silent:
                self.heartbeat(broker.broker_id)

    def pass_time(self, seconds: float, *, silent: Iterable[int] = ()) -> None:
        """Time passes in steps of a second, with heartbeats and ticks."""
        for _ in range(int(seconds)):
            self.now += 1.0
            self.beat(silent=silent)
            self.commit(self.controller.tick(self.now))

    def fail_over(self) -> None:
        """Another controller takes over: it has the image and nothing else."""
        self.controller.deactivated()
        self.controller.activated(self.now, 2)

    # ------------------------------------------------------------------ data

    def is_fsync(self, key: PartitionKey) -> bool:
        """Whether the topic syncs before it acknowledges."""
        name = self.quorum.image.topics[key.topic_id].name
        own = self.quorum.image.settings_of(ResourceType.TOPIC, name).get("hightide.durability")
        return (own or self.controller.settings.durability) == "fsync"

    def minimum(self, key: PartitionKey) -> int:
        """The effective min.insync.replicas."""
        name = self.quorum.image.topics[key.topic_id].name
        own = self.quorum.image.settings_of(ResourceType.TOPIC, name).get("min.insync.replicas")
        wanted = int(own) if own else self.controller.settings.min_insync_replicas
        return min(wanted, len(self.partition(key).replicas))

    def leads(self, key: PartitionKey) -> Broker | None:
        """The leader, if it runs and its life is the one that was elected."""
        leader = self.partition(key).leader
        broker = self.brokers.get(leader)
        if broker is None or not broker.is_up or broker.epoch != self.quorum.image.brokers[leader].epoch:
            return None
        return broker

    def fetch(self, key: PartitionKey, broker_id: int) -> bool:
        """A follower fetches until it has what the leader has."""
        leader, follower = self.leads(key), self.brokers[broker_id]
        if leader is None or not follower.is_up or follower is leader:
            return False
        if self.quorum.image.brokers[broker_id].epoch != follower.epoch:
            return False
        follower.disk.logs[key] = list(leader.disk.logs.get(key, ()))
        follower.unready.pop(key, None)
        follower.disk.corrupt.discard(key)
        follower.disk.synced[key] = min(follower.disk.synced.get(key, 0), len(follower.disk.logs[key]))
        if self.is_fsync(key):
            follower.disk.synced[key] = len(follower.disk.logs[key])
        return True

    def flush(self, broker_id: int, key: PartitionKey) -> None:
        """The operating system writes a log back."""
        broker = self.brokers[broker_id]
        broker.disk.synced[key] = len(broker.disk.logs.get(key, ()))

    def produce(self, key: PartitionKey, fetchers: Iterable[int] | None = None) -> bool:
        """One record; whether it was acknowledged: every in-sync member has it, and there are enough."""
        leader = self.leads(key)
        if leader is None:
            return False
        self._records += 1
        leader.disk.logs.setdefault(key, []).append(self._records)
        partition = self.partition(key)
        followers = [r for r in partition.replicas if r != leader.broker_id]
        fetched = {r for r in (followers if fetchers is None else fetchers) if r in followers and self.fetch(key, r)}
        if self.is_fsync(key):
            leader.disk.synced[key] = len(leader.disk.logs[key])
        members = set(partition.in_sync_replicas)
        if members <= {*fetched, leader.broker_id} and len(members) >= self.minimum(key):
            self.acked[key] = set(leader.disk.logs[key])
            return True
        return False

    def propose(
        self,
        key: PartitionKey,
        members: Iterable[int],
        *,
        sender: int | None = None,
        partition_epoch: int | None = None,
        leader_epoch: int | None = None,
        epochs: dict[int, int] | None = None,
        whole_logs_synced: bool = False,
    ) -> AlterPartitionResponsePartitionData:
        """AlterPartition by the leader, as of the newest image unless said otherwise."""
        partition = self.partition(key)
        by = sender if sender is not None else partition.leader
        lives = {**{b: broker.epoch for b, broker in self.brokers.items()}, **(epochs or {})}
        wish = AlterPartitionRequestPartitionData(
            partition_index=key.partition,
            leader_epoch=partition.leader_epoch if leader_epoch is None else leader_epoch,
            partition_epoch=partition.partition_epoch if partition_epoch is None else partition_epoch,
            new_isr_with_epochs=[BrokerState(broker_id=m, broker_epoch=lives[m]) for m in members],
            whole_logs_synced=whole_logs_synced,
        )
        topic = AlterPartitionRequestTopicData(topic_id=key.topic_id, partitions=[wish])
        request = AlterPartitionRequest(broker_id=by, broker_epoch=lives[by], topics=[topic])
        response = self.commit(self.controller.alter_partition(request))
        if response.error_code:
            return AlterPartitionResponsePartitionData(error_code=response.error_code)
        return response.topics[0].partitions[0]

    def join(self, key: PartitionKey, broker_id: int) -> bool:
        """A follower that has everything joins the in-sync set."""
        partition = self.partition(key)
        if broker_id in partition.in_sync_replicas or not self.fetch(key, broker_id):
            return False
        return not self.propose(key, [*partition.in_sync_replicas, broker_id]).error_code

    def leave(self, key: PartitionKey, broker_id: int) -> bool:
        """A leader takes a laggard out."""
        partition = self.partition(key)
        if self.leads(key) is None or broker_id == partition.leader or broker_id not in partition.in_sync_replicas:
            return False
        return not self.propose(key, [m for m in partition.in_sync_replicas if m != broker_id]).error_code

    def report_synced(self, key: PartitionKey) -> bool:
        """Every in-sync member synced its whole log, and the leader says so (R23)."""
        partition = self.partition(key)
        if self.leads(key) is None or not all(self.brokers[m].is_up for m in partition.in_sync_replicas):
            return False
        for member in partition.in_sync_replicas:
            self.flush(member, key)
        return not self.propose(key, partition.in_sync_replicas, whole_logs_synced=True).error_code

    def expect_kept(self, key: PartitionKey, records: set[int]) -> None:
        """I7: whoever leads has these records."""
        leader = self.leads(key)
        if leader is not None and not records <= set(leader.disk.logs.get(key, ())):
            raise ViolationError("I7", f"{records - set(leader.disk.logs.get(key, ()))} are lost")

    def expect_led(self, key: PartitionKey) -> None:
        """Liveness after healing: somebody leads who can serve."""
        leader = self.leads(key)
        if leader is None or key in leader.unready:
            raise ViolationError("liveness", f"nobody can serve {self.partition(key)}")

    # ------------------------------------------------------------------ invariants

    def check(self) -> None:
        """I1, I2, I9, I11."""
        image = self.quorum.image
        for broker_id, broker in image.brokers.items():
            if broker.epoch < self._broker_epochs.get(broker_id, -1):
                raise ViolationError("I11", f"the epoch of broker {broker_id} fell to {broker.epoch}")
            self._broker_epochs[broker_id] = broker.epoch
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                key = PartitionKey(topic.topic_id, number)
                self._check_sets(key, partition)
                self._check_epochs(key, partition)
                self._check_data(key, partition)

    def _check_sets(self, key: PartitionKey, partition: Partition) -> None:
        in_sync, eligible = set(partition.in_sync_replicas), set(partition.eligible_leader_replicas)
        known = set(partition.last_known_eligible)
        live = {broker.broker_id for broker in self.quorum.image.brokers.values() if broker.live}
        problems = {
            "not subsets of the replicas": not (in_sync | eligible | known) <= set(partition.replicas),
            "not disjoint": bool(in_sync & eligible or in_sync & known or eligible & known),
            "a fenced member": not in_sync <= live,
            "a leader that is not in sync": partition.leader != NO_BROKER and partition.leader not in in_sync,
            "members and no leader": partition.leader == NO_BROKER and bool(in_sync),
            "eligible beside enough": bool(eligible) and len(in_sync) >= self.minimum(key),
        }
        for what, is_so in problems.items():
            if is_so:
                raise ViolationError("I9", f"{what}: {partition}")

    def _check_epochs(self, key: PartitionKey, partition: Partition) -> None:
        before = self._epochs.get(key, (-1, -1))
        if partition.leader_epoch < before[0] or partition.partition_epoch < before[1]:
            raise ViolationError("I11", f"epochs fell from {before}: {partition}")
        self._epochs[key] = (partition.leader_epoch, partition.partition_epoch)

    def _check_data(self, key: PartitionKey, partition: Partition) -> None:
        acked = self.acked.get(key, set())
        leader = self.leads(key)
        if leader is not None and not acked <= set(leader.disk.logs.get(key, ())):
            raise ViolationError("I1", f"leader {leader.broker_id} lacks {acked - set(leader.disk.logs.get(key, ()))}")
        for member in partition.members:
            broker = self.brokers[member]
            registered = self.quorum.image.brokers.get(member)
            is_current = registered is not None and broker.epoch == registered.epoch and not registered.fenced
            is_held = partition.directory_of(member) != LOST_DIRECTORY and key not in broker.unready
            if broker.is_up and is_current and is_held and not acked <= set(broker.disk.logs.get(key, ())):
                raise ViolationError("I2", f"member {member} lacks {acked - set(broker.disk.logs.get(key, ()))}")
