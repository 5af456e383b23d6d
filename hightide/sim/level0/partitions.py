"""The partition simulator: brokers with the real replica machine, the real controller, producers, invariants.

`partition_campaign` lets chance make the trouble in it; the scripts of tests/scripts tell what happens themselves.
"""

from collections.abc import Iterator
from random import Random
from typing import Any, Final, NamedTuple

from hightide.errors import ErrorCode
from hightide.metadata.entities import LOST_DIRECTORY, ResourceType
from hightide.metadata.image import Image
from hightide.rules import ALL_ON, Rules
from hightide.sim.level0.kernel import InvariantError, Kernel
from hightide.sim.level0.network import Network, Stream
from hightide.sim.level0.partition_broker import BrokerProcess, incarnation_id
from hightide.sim.level0.partition_clients import Answerer, SimulatedProducer
from hightide.sim.level0.partition_controllers import Controllers, MetadataBatch
from hightide.sim.level0.partition_disk import Disk, MachineClock
from hightide.sim.level0.partition_fetching import Fetch, FetchPart
from hightide.sim.level0.partition_log import PartitionLog
from hightide.sim.level0.partition_replica import HostedReplica, Key
from hightide.sim.level0.partition_truth import Truth
from hightide.types import NO_BROKER
from hightide.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
)
from hightide.wire.messages.metadata_log import PossibleLossRecord, RegisterBrokerRecord

FSYNC: Final = "fsync"
NOTED_METADATA: Final = 1


class Options(NamedTuple):
    """What a simulated cluster is like. Times are in seconds, shorter than in production so that more happens."""

    brokers: int = 3
    partitions: int = 2
    replication_factor: int = 3
    min_in_sync_replicas: int = 2
    durability: str = FSYNC
    producers: int = 4
    heartbeat_seconds: float = 0.5
    session_seconds: float = 3.0
    lag_time_max: float = 3.0
    lease_strict: bool = True
    network_delay: float = 0.002
    sync_seconds: float = 0.003
    commit_seconds: float = 0.004
    records_per_fetch: int = 20
    fault_period_seconds: float = 6.0
    loses_at_will: bool = False
    """Faults may take more than the topic's durability promises to survive: losses are recorded and then allowed."""
    steady: bool = False
    """Every delay is exactly its mean: for scripts."""


USUAL: Final = Options()


class PartitionWorld:
    """One cluster under simulation. `truths` watches every partition that ever was."""

    def __init__(
        self, seed: int, options: Options = USUAL, rules: Rules = ALL_ON, *, keeps_timeline: bool = False
    ) -> None:
        self.options = options
        self.rules = rules
        self.kernel = Kernel(seed, keeps_timeline=keeps_timeline)
        self.trace = self.kernel.trace
        self.network = Network(self.kernel, delay=options.network_delay, steady=options.steady)
        self.truths: dict[Key, Truth] = {}
        self.checks_leases = options.lease_strict
        self.allows_loss = options.loses_at_will
        self.disks: dict[int, Disk] = {}
        self.processes: dict[int, BrokerProcess] = {}
        self.slow_disks: dict[int, float] = {}
        self.doubted: dict[int, int] = {}
        """Broker → the newest life when its disk lost something: it is judged again when a later one registers."""
        self._random = self.kernel.stream("world")
        self._lives = 0
        self._producer_numbers = 0
        self._topics = 0
        session = int(options.session_seconds * 1000)
        self.controllers = Controllers(
            self,
            {
                "broker.session.timeout.ms": str(session),
                "broker.heartbeat.interval.ms": str(int(options.heartbeat_seconds * 1000)),
                "auto.leader.rebalance.enable": "true",
                "leader.imbalance.check.interval.seconds": "15",
            },
        )
        for broker_id in range(1, options.brokers + 1):
            rate = 1.0 if options.steady else 1 + self._random.uniform(-0.02, 0.02)
            self.disks[broker_id] = Disk(broker_id, MachineClock(rate))
            self.start(broker_id)

    # ------------------------------------------------------------------ times

    def sync_seconds(self, broker_id: int) -> float:
        """How long this fsync takes."""
        mean = self.slow_disks.get(broker_id, self.options.sync_seconds)
        return mean if self.options.steady else mean * (0.3 + 1.4 * self._random.random())

    def speed_up(self, broker_id: int) -> None:
        """Its disk is as fast as it was."""
        self.slow_disks.pop(broker_id, None)

    def commit_seconds(self) -> float:
        """How long the controllers' quorum takes to commit."""
        mean = self.options.commit_seconds
        return mean if self.options.steady else mean * (0.5 + self._random.random())

    def noted(self, *facts: float) -> None:
        """Something for the trace's hash."""
        self.trace.note(self.kernel.now, *facts)

    def say(self, text: str) -> None:
        """A line of the timeline."""
        self.trace.say(self.kernel.now, text)

    # ------------------------------------------------------------------ processes

    def start(self, broker_id: int) -> None:
        """A new life, if there is none."""
        if broker_id in self.processes:
            return
        self._lives += 1
        process = self.processes[broker_id] = BrokerProcess(self, self.disks[broker_id], self._lives)
        process.start()

    def kill(self, broker_id: int) -> None:
        """kill -9: what was written stays."""
        process = self.processes.pop(broker_id, None)
        if process is not None:
            process.is_alive = False
            self.network.kill(broker_id)

    def lose_power(self, broker_id: int, *, keeps: int | None = None) -> None:
        """Only what was synced is sure to stay; `keeps`: how many other records do, else chance decides."""
        self.kill(broker_id)
        self._doubt(broker_id)
        self.disks[broker_id].lose_power(self.kernel.stream(f"power {broker_id} {self._lives}"), keeps)

    def wipe(self, broker_id: int) -> None:
        """The machine comes back with an empty disk."""
        self.kill(broker_id)
        self._doubt(broker_id)
        self.disks[broker_id].wipe()

    def go_back(self, broker_id: int, random: Random, *, whole_disk: bool) -> None:
        """Its logs lose their ends, synced or not; `whole_disk`: it is a copy from before its newest unfenced life."""
        self.kill(broker_id)
        self._doubt(broker_id)
        broker = self.controllers.image.brokers.get(broker_id)
        unfenced_epoch = 0 if broker is None else broker.unfenced_epoch
        self.disks[broker_id].go_back(random, older_than=unfenced_epoch if whole_disk else None)

    def pause(self, broker_id: int, seconds: float) -> None:
        """SIGSTOP, and SIGCONT later."""
        process = self.processes.get(broker_id)
        if process is not None:
            process.paused_until = self.kernel.now + seconds
            self.network.pause(broker_id, process.paused_until)

    def restart(self, broker_id: int) -> None:
        """A life ends because it was told that it is over; the next begins soon."""
        self.kill(broker_id)
        self.kernel.after(0.5, self.start, broker_id)

    def stopped(self, broker_id: int) -> None:
        """A clean stop: everything is synced on the way out."""
        process = self.processes.get(broker_id)
        if process is not None:
            for replica in process.replicas.values():
                replica.log.sync_all()
            self.kill(broker_id)
            self.kernel.after(1.0, self.start, broker_id)

    def _doubt(self, broker_id: int) -> None:
        self.doubted[broker_id] = self._lives

    # ------------------------------------------------------------------ topics and producers

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 0,
        assignment: tuple[int, ...] = (),
        minimum: int = 0,
        durability: str = "",
    ) -> None:
        """Ask the controller for a topic."""
        options = self.options
        configs = {
            "min.insync.replicas": str(minimum or options.min_in_sync_replicas),
            "hightide.durability": durability or options.durability,
        }
        topic = CreatableTopic(
            name=name,
            num_partitions=-1 if assignment else partitions or options.partitions,
            replication_factor=-1 if assignment else options.replication_factor,
            assignments=[CreatableReplicaAssignment(partition_index=0, broker_ids=list(assignment))]
            if assignment
            else [],
            configs=[CreatableTopicConfig(name=key, value=value) for key, value in configs.items()],
        )
        request = CreateTopicsRequest(topics=[topic])
        self.controllers.command(lambda controller: controller.create_topics(request, self._new_id))

    def _new_id(self) -> bytes:
        self._topics += 1
        return b"topic" + self._topics.to_bytes(11, "big")

    def next_producer_number(self) -> int:
        """An id that no producer had."""
        self._producer_numbers += 1
        return self._producer_numbers

    def add_producer(self, key: Key, *, acks_all: bool = True, pause: float = 0.2) -> SimulatedProducer:
        """A producer of one partition."""
        producer = SimulatedProducer(self, self.next_producer_number(), key, acks_all=acks_all, pause=pause)
        producer.start()
        return producer

    def topic_settings(self, image: Image, name: str) -> tuple[int, bool]:
        """min.insync.replicas, and whether acknowledged means synced."""
        overrides = image.settings_of(ResourceType.TOPIC, name)
        return int(overrides["min.insync.replicas"]), overrides["hightide.durability"] == FSYNC

    # ------------------------------------------------------------------ messages

    def fetch_asked(self, leader: int, fetch: Fetch) -> None:
        """A follower's Fetch arrived."""
        process = self.processes.get(leader)
        if process is not None:
            process.parked.arrived(fetch)

    def fetch_answered(self, broker_id: int, leader: int, fetch: Fetch, parts: dict[Key, FetchPart]) -> None:
        """A leader's answer arrived."""
        process = self.processes.get(broker_id)
        if process is not None and process.broker_epoch == fetch.broker_epoch:
            process.fetch_answered(leader, fetch.synced, fetch.number, parts)

    def controller_asked(self, node: int, process: BrokerProcess, number: int, request: Any, stream: Stream) -> None:
        """A broker's request arrived at a controller's node."""
        self.controllers.asked(node, request, lambda reply: self.network.send(stream, process.replied, number, reply))

    def produce_asked(
        self, leader: int, producer: SimulatedProducer, attempt: int, sequence: int, stream: Stream
    ) -> None:
        """A client's record arrived."""
        process = self.processes.get(leader)
        if process is None:
            return
        answer = Answerer(self, producer, attempt, stream)
        replica = process.replicas.get(producer.key)
        if replica is None:
            answer(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        else:
            replica.produce(producer.number, sequence, producer.acks_all, answer)

    # ------------------------------------------------------------------ what the watchers ask

    @property
    def acknowledged(self) -> int:
        """How many records were acknowledged with acks=all."""
        return sum(truth.acknowledged for truth in self.truths.values())

    def metadata_committed(self, batch: MetadataBatch) -> None:
        """A batch is committed: sets are compared, and what a registration ended is no longer doubted."""
        image = batch.image
        for topic in batch.delta.topics_created:
            for index in range(len(topic.partitions)):
                self.truths[topic.topic_id, index] = Truth(self, topic.name, topic.topic_id, index)
        for topic in batch.delta.topics_deleted:
            for index in range(len(topic.partitions)):
                self.truths[topic.topic_id, index].agreed = None
        for record in batch.records:
            if isinstance(record, RegisterBrokerRecord):
                self._registered(record)
            elif isinstance(record, PossibleLossRecord):
                self._possible_loss(record)
        unfenced = {broker.broker_id for broker in image.brokers.values() if not broker.fenced}
        for key in batch.delta.partitions:
            self._agree(image, (key.topic_id, key.partition), unfenced)

    def _registered(self, record: RegisterBrokerRecord) -> None:
        """What the disk lost is known now, unless this life began before the loss and its registration came late."""
        doubted_life = self.doubted.get(record.broker_id)
        if doubted_life is not None and record.incarnation_id > incarnation_id(doubted_life):
            del self.doubted[record.broker_id]
            self.disks[record.broker_id].lost_synced = False

    def _agree(self, image: Image, key: Key, unfenced: set[int]) -> None:
        partition = image.partition(*key)
        if partition is None:
            return
        truth = self.truths[key]
        before = truth.agreed
        if before is not None and before.leader in unfenced and partition.leader != before.leader:
            truth.voluntary_epochs.add(partition.leader_epoch)
        minimum, _ = self.topic_settings(image, image.topics[key[0]].name)
        self.noted(NOTED_METADATA, key[1], partition.leader, partition.partition_epoch)
        if self.trace.keeps_lines:
            self.say(
                f"metadata {truth.name}: leader {partition.leader} epoch {partition.leader_epoch} in sync "
                f"{partition.in_sync_replicas} eligible {partition.eligible_leader_replicas} last known "
                f"{partition.last_known_eligible} partition epoch {partition.partition_epoch}"
            )
        truth.agree(partition, min(minimum, len(partition.replicas)), unfenced)

    def _possible_loss(self, record: PossibleLossRecord) -> None:
        key = (record.topic_id, record.partition_id)
        if not self.allows_loss:
            self.truths[key].fail(
                "I7", f"broker {record.leader} leads epoch {record.leader_epoch} and may miss records"
            )
        if record.leader in self.doubted:
            return  # it lost power after it was asked, and will be judged again when it registers
        others = [log for broker_id in self.disks if (log := self._intact_log(broker_id, self.truths[key])) is not None]
        self.truths[key].forgive(self.disks[record.leader].logs[self.truths[key].directory], others)

    def _intact_log(self, broker_id: int, truth: Truth) -> PartitionLog | None:
        partition = truth.agreed
        if partition is None or broker_id not in partition.last_known_eligible:
            return None
        if partition.directory_of(broker_id) == LOST_DIRECTORY:
            return None  # waited for, but it never leads this way, whatever it has fetched again (R7)
        return self.disks[broker_id].logs.get(truth.directory)

    def leader_of(self, key: Key) -> HostedReplica | None:
        """Whoever the committed metadata names and believes it too."""
        partition = self.controllers.image.partition(*key)
        process = None if partition is None else self.processes.get(partition.leader)
        replica = None if process is None else process.replicas.get(key)
        return replica if replica is not None and replica.machine.is_leader else None

    def member_log(self, broker_id: int, truth: Truth) -> PartitionLog | None:
        """The log that a member's disk holds; None where it is not to be judged until the broker registers again."""
        if broker_id in self.doubted and (not self.is_synced_only(truth) or self.disks[broker_id].lost_synced):
            return None
        log = self.disks[broker_id].logs.get(truth.directory)
        return log if log is not None and log.topic_id == truth.key[0] else PartitionLog(truth.key[0])

    def is_synced_only(self, truth: Truth) -> bool:
        """Whether what is committed must be on stable storage of every member."""
        image = self.controllers.image
        topic = image.topics.get(truth.key[0])
        if topic is None or truth.agreed is None:
            return False
        return self.topic_settings(image, topic.name)[1] and truth.agreed.whole_logs_synced

    # ------------------------------------------------------------------ whether all is well

    def unwell(self) -> Iterator[str]:
        """What is not as it should be when nothing is wrong any more (RELIABILITY.md, liveness)."""
        image = self.controllers.image
        for broker_id in self.disks:
            broker = image.brokers.get(broker_id)
            if broker_id not in self.processes or broker is None or not broker.live:
                yield f"broker {broker_id} is not live"
        for topic in image.topics.values():
            for index, partition in enumerate(topic.partitions):
                name = f"{topic.name}-{index}"
                if partition.leader == NO_BROKER:
                    yield f"{name} has no leader"
                    continue
                if set(partition.in_sync_replicas) != set(partition.replicas):
                    yield f"{name} has only {partition.in_sync_replicas} in sync of {partition.replicas}"
                yield from self._lagging((topic.topic_id, index), partition.replicas, name)
        for process in self.processes.values():
            if process.image.offset != image.offset:
                yield f"broker {process.id} has metadata up to {process.image.offset}, not {image.offset}"

    def _lagging(self, key: Key, replicas: tuple[int, ...], name: str) -> Iterator[str]:
        leader = self.leader_of(key)
        if leader is None:
            yield f"{name} has a leader that does not lead"
            return
        for broker_id in replicas:
            process = self.processes.get(broker_id)
            replica = None if process is None else process.replicas.get(key)
            if replica is None or replica.log.end != leader.log.end:
                yield f"{name} lags on broker {broker_id}"
            elif replica.machine.high_watermark != leader.log.end:
                yield f"{name} has high watermark {replica.machine.high_watermark} of {leader.log.end} on {broker_id}"


def check_liveness(world: PartitionWorld, producers: list[SimulatedProducer], seconds: float) -> None:
    """Healed, everything is well again within a while; else that is a finding too."""
    deadline = world.kernel.now + seconds
    problems = ["not looked yet"]
    while problems and world.kernel.now < deadline:
        world.kernel.run(world.kernel.now + 1.0)
        problems = [f"producer {producer.number} waits" for producer in producers if producer.is_waiting]
        problems += world.unwell()
    if problems:
        raise InvariantError("liveness", "; ".join(problems[:5]))
