"""Any sequence of failures and commands: I1, I2, I9 and I11 hold, and after healing everybody is in sync again."""

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from hightide.metadata.entities import CLUSTER_DEFAULT, ResourceType
from hightide.metadata.replica_states import ReplicaState
from hightide.rules import ALL_ON
from hightide.types import PartitionKey
from hightide.wire.messages.elect_leaders import ElectLeadersRequest
from tests.metadata_world import Disk, World

BROKERS = st.integers(1, 4)
TOPICS = st.integers(0, 2)
ASSIGNMENTS = ([1, 2, 3], [2, 3, 4], [4])
DURABILITIES = ["fsync", "replicated"]
DAMAGES = [ReplicaState.DOUBTFUL, ReplicaState.BELOW_HIGH_WATERMARK, ReplicaState.QUARANTINED]
CLOSED = [ReplicaState.QUARANTINED, ReplicaState.NOT_READY]
DURABILITY = st.sampled_from(DURABILITIES)
DAMAGE = st.sampled_from(DAMAGES)


class Cluster(RuleBasedStateMachine):
    """Four brokers, three topics; `World` checks after every commit."""

    laws = ALL_ON
    world: World
    keys: list[PartitionKey]

    @initialize(durability=DURABILITY, minimum=st.integers(1, 3), unclean=st.booleans())
    def begin(self, durability: str, minimum: int, unclean: bool) -> None:
        self.world = World(self.laws, brokers=4, minimum=minimum)
        self.world.configure(ResourceType.BROKER, CLUSTER_DEFAULT, hightide_durability=durability)
        unclean_text = str(unclean).lower()
        self.keys = [
            self.world.create(f"t{n}", replicas, unclean_leader_election_enable=unclean_text)
            for n, replicas in enumerate(ASSIGNMENTS)
        ]
        self.backups: dict[int, Disk] = {}

    @rule(topic=TOPICS, fetchers=st.none() | st.sets(BROKERS))
    def produce(self, topic: int, fetchers: set[int] | None) -> None:
        self.world.produce(self.keys[topic], fetchers)

    @rule(everybody=st.booleans())
    def work(self, everybody: bool) -> None:
        """An ordinary moment: whoever can joins, and records are acknowledged."""
        for broker in self.world.brokers.values():
            if everybody and not broker.is_up:
                self.world.start(broker.broker_id)
        for key, replicas in zip(self.keys, ASSIGNMENTS, strict=True):
            for broker_id in replicas:
                self.world.join(key, broker_id)
            self.world.produce(key)

    @rule(topic=TOPICS, broker=BROKERS)
    def join(self, topic: int, broker: int) -> None:
        if broker in ASSIGNMENTS[topic]:
            self.world.join(self.keys[topic], broker)

    @rule(topic=TOPICS, broker=BROKERS)
    def leave(self, topic: int, broker: int) -> None:
        self.world.leave(self.keys[topic], broker)

    @rule(topic=TOPICS, broker=BROKERS)
    def flush(self, topic: int, broker: int) -> None:
        self.world.flush(broker, self.keys[topic])

    @rule(topic=TOPICS)
    def report_synced(self, topic: int) -> None:
        self.world.report_synced(self.keys[topic])

    @rule(broker=BROKERS)
    def kill(self, broker: int) -> None:
        self.world.kill(broker)

    @rule(brokers=st.sets(BROKERS, min_size=1))
    def power_loss(self, brokers: set[int]) -> None:
        for broker in sorted(brokers):
            self.world.power_loss(broker)

    @rule(broker=BROKERS)
    def back_up(self, broker: int) -> None:
        self.backups[broker] = self.world.brokers[broker].disk.copy()

    @rule(broker=BROKERS)
    def restore(self, broker: int) -> None:
        """A backup older than a life that took roles; one of the same life is outside what can be known."""
        backup = self.backups.get(broker)
        registered = self.world.quorum.image.brokers[broker]
        if backup is not None and backup.epoch < registered.unfenced_epoch:
            self.world.restore(broker, backup)

    @rule(broker=BROKERS)
    def wipe(self, broker: int) -> None:
        self.world.wipe(broker)

    @rule(topic=TOPICS, broker=BROKERS, state=DAMAGE)
    def damage(self, topic: int, broker: int, state: ReplicaState) -> None:
        if broker in ASSIGNMENTS[topic] and not self.world.brokers[broker].is_up:
            self.world.damage(broker, self.keys[topic], state)

    @rule(topic=TOPICS, broker=BROKERS, state=st.sampled_from(CLOSED))
    def close(self, topic: int, broker: int, state: ReplicaState) -> None:
        if broker in ASSIGNMENTS[topic] and self.world.brokers[broker].is_up:
            self.world.close(broker, self.keys[topic], state)

    @rule(broker=BROKERS)
    def start(self, broker: int) -> None:
        self.world.start(broker)

    @rule(broker=BROKERS)
    def register_only(self, broker: int) -> None:
        self.world.register(broker)

    @rule(broker=BROKERS)
    def stop(self, broker: int) -> None:
        if self.world.brokers[broker].is_up:
            for _ in range(3):
                if self.world.heartbeat(broker, want_shut_down=True).should_shut_down:
                    self.world.kill(broker)
                    return
                self.world.beat(silent=[broker])

    @rule(seconds=st.integers(1, 7), silent=st.sets(BROKERS, max_size=2))
    def pass_time(self, seconds: int, silent: set[int]) -> None:
        self.world.pass_time(seconds, silent=silent)

    @rule()
    def fail_over(self) -> None:
        self.world.fail_over()

    @rule(minimum=st.integers(1, 3), durability=DURABILITY)
    def alter_cluster(self, minimum: int, durability: str) -> None:
        configs = {"min_insync_replicas": str(minimum), "hightide_durability": durability}
        self.world.configure(ResourceType.BROKER, CLUSTER_DEFAULT, **configs)

    @rule(topic=TOPICS, minimum=st.integers(1, 3))
    def alter_topic(self, topic: int, minimum: int) -> None:
        self.world.configure(ResourceType.TOPIC, f"t{topic}", min_insync_replicas=str(minimum))

    @rule(kind=st.integers(0, 1))
    def elect(self, kind: int) -> None:
        request = ElectLeadersRequest(election_type=kind, topic_partitions=None)
        self.world.commit(self.world.controller.elect_leaders(request))

    @precondition(lambda self: hasattr(self, "world"))
    @rule()
    def again(self) -> None:
        """C21: time that passes twice at once does nothing the second time."""
        assert self.world.controller.tick(self.world.now).records == self.world.controller.tick(self.world.now).records

    def teardown(self) -> None:
        if hasattr(self, "world"):
            self.heal()

    def heal(self) -> None:
        """Liveness: everybody is back, an operator gives up what is lost, and the in-sync sets are full again."""
        world = self.world
        world.pass_time(7)
        for broker in world.brokers.values():
            for key in [key for key, told in broker.unready.items() if told.state is ReplicaState.NOT_READY]:
                del broker.unready[key]
            for key in [key for key in broker.disk.corrupt if not world.partition(key).has_leader]:
                world.repair(broker.broker_id, key)
        world.pass_time(7)
        for broker in world.brokers.values():
            if not broker.is_up:
                world.start(broker.broker_id)
        world.beat()
        world.commit(world.controller.elect_leaders(ElectLeadersRequest(election_type=1, topic_partitions=None)))
        for key, replicas in zip(self.keys, ASSIGNMENTS, strict=True):
            assert world.leads(key) is not None, world.partition(key)
            for _ in range(2):  # a replica that was closed joins after the heartbeat that tells that it is open
                for broker_id in replicas:
                    world.join(key, broker_id)
                world.beat()
            assert set(world.partition(key).in_sync_replicas) == set(replicas)
            assert world.produce(key)


@pytest.fixture
def run_machine() -> Callable[[type[RuleBasedStateMachine]], None]:
    def run(machine: type[RuleBasedStateMachine]) -> None:
        run_state_machine_as_test(machine, settings=settings(max_examples=30, stateful_step_count=40, deadline=None))

    return run


def test_any_sequence_of_failures(run_machine: Callable[[type[RuleBasedStateMachine]], None]) -> None:
    run_machine(Cluster)


WEIGHTS = {"work": 10, "produce": 4, "start": 4, "pass_time": 4, "join": 3, "kill": 3, "power_loss": 3, "damage": 3}


@pytest.mark.parametrize("seed", [pytest.param(seed, marks=[] if seed < 2 else pytest.mark.long) for seed in range(20)])
def test_many_random_lives(seed: int) -> None:
    """The same steps in longer lives and likelier proportions than Hypothesis takes: a hundred lives a seed."""
    random = Random(seed)
    for _ in range(100):
        _live(random)


def _live(random: Random) -> None:
    cluster = Cluster.__new__(Cluster)

    def broker() -> int:
        return random.randint(1, 4)

    def some(most: int) -> set[int]:
        return {broker() for _ in range(random.randint(0, most))}

    def topic() -> int:
        return random.randint(0, 2)

    steps: dict[str, Callable[[], dict[str, object]]] = {
        "work": lambda: {"everybody": random.random() < 0.5},
        "produce": lambda: {"topic": topic(), "fetchers": None if random.random() < 0.5 else some(3)},
        "join": lambda: {"topic": topic(), "broker": broker()},
        "leave": lambda: {"topic": topic(), "broker": broker()},
        "flush": lambda: {"topic": topic(), "broker": broker()},
        "report_synced": lambda: {"topic": topic()},
        "kill": lambda: {"broker": broker()},
        "power_loss": lambda: {"brokers": some(3)},
        "back_up": lambda: {"broker": broker()},
        "restore": lambda: {"broker": broker()},
        "wipe": lambda: {"broker": broker()},
        "damage": lambda: {"topic": topic(), "broker": broker(), "state": random.choice(DAMAGES)},
        "close": lambda: {"topic": topic(), "broker": broker(), "state": random.choice(CLOSED)},
        "start": lambda: {"broker": broker()},
        "register_only": lambda: {"broker": broker()},
        "stop": lambda: {"broker": broker()},
        "pass_time": lambda: {"seconds": random.randint(1, 7), "silent": some(2)},
        "fail_over": dict,
        "alter_cluster": lambda: {"minimum": random.randint(1, 3), "durability": random.choice(DURABILITIES)},
        "alter_topic": lambda: {"topic": topic(), "minimum": random.randint(1, 3)},
        "elect": lambda: {"kind": random.randint(0, 1)},
    }
    cluster.begin(durability=random.choice(DURABILITIES), minimum=random.randint(1, 3), unclean=random.random() < 0.2)
    for name in random.choices(list(steps), [WEIGHTS.get(name, 1) for name in steps], k=60):
        getattr(cluster, name)(**steps[name]())
    cluster.heal()
