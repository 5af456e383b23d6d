"""Any sequence of commands: indexes equal a rebuild, a snapshot equals the log, and the laws of partitions hold."""

from collections.abc import Callable, Generator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from hightide.metadata.difference import difference
from hightide.metadata.entities import CLUSTER_DEFAULT, ReplicaKey, ResourceType
from hightide.metadata.frozen_map import FrozenMap
from hightide.metadata.image import Delta, Image
from hightide.metadata.index import Index
from hightide.metadata.records import decode_record, encode_record
from hightide.metadata.snapshot import SnapshotImage, snapshot_batches
from hightide.types import NO_BROKER, PartitionKey
from hightide.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from hightide.wire.messages.delete_topics import DeleteTopicsRequest
from hightide.wire.messages.incremental_alter_configs import (
    AlterableConfig,
    AlterConfigsResource,
    IncrementalAlterConfigsRequest,
)
from tests.metadata_quorum import EPOCH, Quorum

BROKERS = st.integers(1, 5)
NAMES = st.sampled_from(["a", "b", "a.b", "a_b", "c"])
TOPIC_SETTINGS = st.sampled_from([("min.insync.replicas", "1"), ("min.insync.replicas", "2"), ("retention.ms", "9")])


def _result(work: Generator[None, None, Delta]) -> Delta:
    while True:
        try:
            next(work)
        except StopIteration as done:
            delta: Delta = done.value
            return delta


class Cluster(RuleBasedStateMachine):
    """Commands on a controller; the log is kept as bytes."""

    def __init__(self) -> None:
        super().__init__()
        self.quorum = Quorum({"min.insync.replicas": "2"})
        self.images: list[Image] = []
        self.leader_epochs: dict[PartitionKey, int] = {}
        self.replicas: dict[PartitionKey, tuple[int, ...]] = {}

    @initialize()
    def begin(self) -> None:
        self.quorum.commit(self.quorum.controller.bootstrap())
        self.quorum.start(1, 2, 3)

    @rule(broker=BROKERS)
    def restart(self, broker: int) -> None:
        self.quorum.register(broker)

    @rule(broker=BROKERS)
    def unfence(self, broker: int) -> None:
        known = self.quorum.image.brokers.get(broker)
        if known is not None:
            self.quorum.commit(self.quorum.controller.unfence_broker(broker, known.epoch))

    @rule(broker=BROKERS)
    def fence(self, broker: int) -> None:
        self.quorum.commit(self.quorum.controller.fence_broker(broker))
        again = self.quorum.controller.fence_broker(broker)
        assert again.records == []  # C21

    @rule(name=NAMES, partitions=st.integers(1, 4), factor=st.integers(1, 4))
    def create(self, name: str, partitions: int, factor: int) -> None:
        self.quorum.create(name, partitions, factor)

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.quorum.commit(self.quorum.controller.delete_topics(DeleteTopicsRequest(topic_names=[name]), 1))

    @rule(name=NAMES, count=st.integers(1, 8))
    def grow(self, name: str, count: int) -> None:
        request = CreatePartitionsRequest(topics=[CreatePartitionsTopic(name=name, count=count, assignments=None)])
        self.quorum.commit(self.quorum.controller.create_partitions(request))

    @rule(name=NAMES, setting=TOPIC_SETTINGS, delete=st.booleans())
    def alter_topic(self, name: str, setting: tuple[str, str], delete: bool) -> None:
        self._alter(ResourceType.TOPIC, name, setting, delete)

    @rule(minimum=st.integers(1, 3), delete=st.booleans())
    def alter_cluster(self, minimum: int, delete: bool) -> None:
        self._alter(ResourceType.BROKER, CLUSTER_DEFAULT, ("min.insync.replicas", str(minimum)), delete)

    def _alter(self, kind: ResourceType, name: str, setting: tuple[str, str], delete: bool) -> None:
        config = AlterableConfig(name=setting[0], value=None if delete else setting[1], config_operation=int(delete))
        resource = AlterConfigsResource(resource_type=kind, resource_name=name, configs=[config])
        request = IncrementalAlterConfigsRequest(resources=[resource])
        self.quorum.commit(self.quorum.controller.incremental_alter_configs(request))

    @invariant()
    def the_indexes_agree_with_a_rebuild(self) -> None:
        image = self.quorum.image
        assert image.index == Index.rebuilt(image.topics.values())
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                for broker in range(1, 6):
                    found = image.replica(ReplicaKey(broker, topic.topic_id, number))
                    assert (found is not None) == (broker in partition.replicas)

    @invariant()
    def a_snapshot_gives_the_same_image(self) -> None:
        image = self.quorum.image
        records = [decode_record(encode_record(record)) for record in image.to_records()]
        again, _ = Image().apply(records, image.offset, image.epoch)
        assert again == image
        building = SnapshotImage()
        for record in records:
            building.add([encode_record(record)])
        assert building.finish(image.offset + 1, image.epoch) == image
        assert list(snapshot_batches(again)) == list(snapshot_batches(image)), "equal images are equal bytes"

    @invariant()
    def in_sync_members_live_and_the_sets_keep_apart(self) -> None:
        """I9."""
        controller, image = self.quorum.controller, self.quorum.image
        living = {broker.broker_id for broker in image.live_brokers()}
        for topic in image.topics.values():
            override = image.settings_of(ResourceType.TOPIC, topic.name).get("min.insync.replicas")
            minimum = int(override) if override else controller.settings.min_insync_replicas
            for partition in topic.partitions:
                in_sync, eligible = set(partition.in_sync_replicas), set(partition.eligible_leader_replicas)
                assert in_sync | eligible <= set(partition.replicas)
                assert not in_sync & eligible
                assert in_sync <= living
                assert partition.leader == NO_BROKER or partition.leader in in_sync
                assert bool(in_sync) == (partition.leader != NO_BROKER)
                assert not eligible or len(in_sync) < min(minimum, len(partition.replicas))
                assert in_sync | eligible  # nobody was lost for good

    @invariant()
    def leader_epochs_never_fall(self) -> None:
        """I11."""
        for topic in self.quorum.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                key = PartitionKey(topic.topic_id, number)
                assert partition.leader_epoch >= self.leader_epochs.get(key, 0)
                self.leader_epochs[key] = partition.leader_epoch

    @invariant()
    def replicas_are_fixed_and_on_different_brokers(self) -> None:
        """C1, C4."""
        for topic in self.quorum.image.topics.values():
            for number, partition in enumerate(topic.partitions):
                assert len(set(partition.replicas)) == len(partition.replicas) == len(partition.directories)
                key = PartitionKey(topic.topic_id, number)
                assert self.replicas.setdefault(key, partition.replicas) == partition.replicas

    @invariant()
    def the_difference_to_an_earlier_image_names_what_changed_and_nothing_else(self) -> None:
        """What a node is told that loads a snapshot instead of the batches in between."""
        image = self.quorum.image
        self.images = [*self.images[-8:], image]
        for before in (Image(), self.images[0], self.images[-2] if len(self.images) > 1 else image):
            delta = _result(difference(before, image))
            assert {t.topic_id for t in delta.topics_created} == set(image.topics) - set(before.topics)
            assert {t.topic_id for t in delta.topics_deleted} == set(before.topics) - set(image.topics)
            keys = {PartitionKey(t.topic_id, n) for t in image.topics.values() for n in range(len(t.partitions))}
            assert set(delta.partitions) == {key for key in keys if before.partition(*key) != image.partition(*key)}
            names = {*before.configs, *image.configs}
            assert set(delta.resources) == {n for n in names if before.configs.get(n) != image.configs.get(n)}
            brokers = {*before.brokers, *image.brokers}
            assert set(delta.brokers) == {b for b in brokers if before.brokers.get(b) != image.brokers.get(b)}

    def teardown(self) -> None:
        """The log, replayed record by record, gives the same cluster."""
        image = Image()
        for offset, data in enumerate(self.quorum.log):
            image, _ = image.apply([decode_record(data)], offset, EPOCH)
        assert image.topics == self.quorum.image.topics
        assert image.configs == self.quorum.image.configs
        assert image.brokers == self.quorum.image.brokers
        assert image.index == self.quorum.image.index


@pytest.mark.covers("C1", "C2", "C4", "C5")
def test_any_sequence_of_commands(run_machine: Callable[[type[RuleBasedStateMachine]], None]) -> None:
    run_machine(Cluster)


@pytest.fixture
def run_machine() -> Callable[[type[RuleBasedStateMachine]], None]:
    from hypothesis.stateful import run_state_machine_as_test

    def run(machine: type[RuleBasedStateMachine]) -> None:
        run_state_machine_as_test(machine, settings=settings(max_examples=60, stateful_step_count=25, deadline=None))

    return run


@given(st.lists(st.tuples(st.text(max_size=3), st.none() | st.integers())))
def test_a_frozen_map_is_a_dictionary(changes: list[tuple[str, int | None]]) -> None:
    model: dict[str, int] = {}
    frozen: FrozenMap[str, int] = FrozenMap()
    for key, value in changes:
        frozen = frozen.changed({key: value})
        if value is None:
            model.pop(key, None)
        else:
            model[key] = value
        assert (dict(frozen), len(frozen)) == (model, len(model))
