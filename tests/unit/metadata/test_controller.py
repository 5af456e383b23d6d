"""The controller: registration, lives of a broker, producer ids, bootstrap, the appended image."""

import pytest

from hightide.errors import ApiError, ErrorCode
from hightide.limits import PRODUCER_ID_BLOCK_SIZE
from hightide.metadata.controller import FEATURES
from hightide.metadata.entities import Endpoint
from hightide.metadata.settings.definition import INT64_MAX
from hightide.rules import ALL_ON
from hightide.types import NO_BROKER, PartitionKey
from hightide.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest
from hightide.wire.messages.broker_registration import BrokerRegistrationRequest
from hightide.wire.messages.create_topics import CreatableTopic, CreateTopicsRequest
from hightide.wire.messages.metadata_log import ProducerIdsRecord
from tests.metadata_quorum import EPOCH, Quorum, directory_of


def test_a_brokers_epoch_is_the_offset_of_its_registration() -> None:
    quorum = Quorum()
    quorum.commit(quorum.controller.bootstrap())
    at = len(quorum.log)
    assert quorum.register(1) == at
    broker = quorum.image.brokers[1]
    assert (broker.epoch, broker.fenced, broker.directories) == (at, True, (directory_of(1),))
    assert broker.endpoint("PLAINTEXT") == Endpoint("PLAINTEXT", "h", 9001, 0)
    assert broker.endpoint("OTHER") is None
    assert quorum.image.live_brokers() == []


def test_the_same_life_registers_again_with_its_epoch() -> None:
    quorum = Quorum()
    epoch = quorum.register(1, incarnation=bytes(16))
    quorum.commit(quorum.controller.unfence_broker(1, epoch))
    assert quorum.register(1, incarnation=bytes(16)) == epoch
    assert quorum.image.brokers[1].live


def test_a_new_life_gets_new_leader_epochs_and_its_epoch_is_still_its_offset() -> None:
    """R8: what the former life still does carries an old leader epoch."""
    quorum = Quorum()
    quorum.start(1)
    quorum.create("t", 2)
    before = quorum.partition("t").leader_epoch
    at = len(quorum.log)
    epoch = quorum.register(1)
    assert epoch == at + 2 == len(quorum.log) - 1
    fenced = quorum.partition("t", 1)
    assert (fenced.leader, fenced.leader_epoch, fenced.in_sync_replicas) == (NO_BROKER, before + 1, ())
    assert fenced.eligible_leader_replicas == (1,)
    quorum.commit(quorum.controller.unfence_broker(1, epoch))
    again = quorum.partition("t", 1)
    assert (again.leader, again.leader_epoch, again.in_sync_replicas) == (1, before + 2, (1,))
    assert again.eligible_leader_replicas == ()


def test_without_the_rule_a_former_life_could_go_on_leading() -> None:
    quorum = Quorum(rules=ALL_ON.without("r8_new_epoch_every_start"))
    quorum.start(1)
    quorum.create("t", 1)
    quorum.register(1)
    assert (quorum.partition("t").leader, quorum.partition("t").leader_epoch) == (1, 0)


def test_a_new_life_in_a_cluster_hands_leadership_over() -> None:
    quorum = Quorum()
    quorum.start(1, 2)
    quorum.create("t", 1, 2)
    quorum.register(1)
    partition = quorum.partition("t")
    assert (partition.leader, partition.leader_epoch, partition.in_sync_replicas) == (2, 1, (2,))


def test_an_old_life_is_refused() -> None:
    quorum = Quorum()
    old = quorum.register(1)
    quorum.register(1)
    with pytest.raises(ApiError) as refused:
        quorum.controller.unfence_broker(1, old)
    assert refused.value.code is ErrorCode.STALE_BROKER_EPOCH
    with pytest.raises(ApiError) as unknown:
        quorum.controller.unfence_broker(7, 0)
    assert unknown.value.code is ErrorCode.BROKER_ID_NOT_REGISTERED


def test_another_process_with_the_same_id_is_refused_while_the_first_lives() -> None:
    quorum = Quorum()
    quorum.start(1)
    request = BrokerRegistrationRequest(broker_id=1, incarnation_id=b"x" * 16, log_dirs=[b"d" * 16])
    decision = quorum.controller.register_broker(request, len(quorum.log), session_active=True)
    assert decision.records == []
    assert decision.reply.error_code == ErrorCode.DUPLICATE_BROKER_REGISTRATION


@pytest.mark.parametrize(
    "directories",
    [[], [b"d" * 16, b"d" * 16], [bytes(16)], [directory_of(1)]],
    ids=["none", "twice", "reserved", "taken"],
)
def test_directories_that_cannot_be(directories: list[bytes]) -> None:
    quorum = Quorum()
    quorum.register(1)
    request = BrokerRegistrationRequest(broker_id=2, incarnation_id=b"x" * 16, log_dirs=directories)
    decision = quorum.controller.register_broker(request, len(quorum.log))
    assert decision.records == []
    assert decision.reply.error_code == ErrorCode.INVALID_REGISTRATION


def test_fencing_and_unfencing_twice_changes_nothing() -> None:
    """C21: the same loss never elects twice."""
    quorum = Quorum()
    quorum.start(1, 2)
    quorum.create("t", 1, 2)
    quorum.commit(quorum.controller.fence_broker(1))
    assert quorum.partition("t").leader == 2
    assert quorum.controller.fence_broker(1).records == []
    assert quorum.controller.fence_broker(9).records == []
    epoch = quorum.image.brokers[1].epoch
    quorum.commit(quorum.controller.unfence_broker(1, epoch))
    assert quorum.controller.unfence_broker(1, epoch).records == []
    assert quorum.partition("t").leader == 2


def test_a_partition_whose_last_member_is_gone_waits_for_it() -> None:
    quorum = Quorum()
    quorum.start(1, 2)
    quorum.create("t", 1, 2)
    quorum.commit(quorum.controller.fence_broker(1))
    quorum.commit(quorum.controller.fence_broker(2))
    assert quorum.partition("t").leader == NO_BROKER
    quorum.commit(quorum.controller.unfence_broker(1, quorum.image.brokers[1].epoch))
    assert quorum.partition("t").leader == NO_BROKER
    elections = quorum.commit(quorum.controller.unfence_broker(2, quorum.image.brokers[2].epoch))
    assert quorum.partition("t").leader == 2
    assert elections.possible_losses == ()


def test_an_unclean_election_is_reported() -> None:
    quorum = Quorum()
    quorum.start(1, 2)
    quorum.create("t", 1, 2, configs={"unclean.leader.election.enable": "true"})
    quorum.commit(quorum.controller.fence_broker(1))
    quorum.commit(quorum.controller.fence_broker(2))
    elections = quorum.commit(quorum.controller.unfence_broker(1, quorum.image.brokers[1].epoch))
    assert elections.possible_losses == (PartitionKey(quorum.topic("t").topic_id, 0),)
    assert quorum.partition("t").in_sync_replicas == (1,)


def test_producer_ids_are_handed_out_once() -> None:
    quorum = Quorum()
    epoch = quorum.register(1)
    request = AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch)
    blocks = [quorum.commit(quorum.controller.allocate_producer_ids(request)) for _ in range(3)]
    assert [block.producer_id_start for block in blocks] == [0, PRODUCER_ID_BLOCK_SIZE, 2 * PRODUCER_ID_BLOCK_SIZE]
    assert {block.producer_id_len for block in blocks} == {PRODUCER_ID_BLOCK_SIZE}


def test_producer_ids_are_refused_to_a_former_life_and_when_none_are_left() -> None:
    quorum = Quorum()
    epoch = quorum.register(1)
    stale = quorum.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch - 1))
    assert (stale.records, stale.reply.error_code) == ([], ErrorCode.STALE_BROKER_EPOCH)
    quorum.controller.replay([ProducerIdsRecord(next_producer_id=INT64_MAX - 5)], len(quorum.log), EPOCH)
    none = quorum.controller.allocate_producer_ids(AllocateProducerIdsRequest(broker_id=1, broker_epoch=epoch))
    assert (none.records, none.reply.error_code) == ([], ErrorCode.UNKNOWN_SERVER_ERROR)


def test_a_new_cluster_begins_once_with_its_features_and_its_min_insync_replicas() -> None:
    quorum = Quorum({"min.insync.replicas": "2"})
    assert quorum.controller.settings.min_insync_replicas == 1
    quorum.commit(quorum.controller.bootstrap())
    assert quorum.image.features == FEATURES
    assert quorum.controller.settings.min_insync_replicas == 2
    assert quorum.controller.bootstrap().records == []


def test_commands_see_what_was_appended_before_it_commits_and_a_reset_forgets_it() -> None:
    """R24: of two requests for one name in flight, one succeeds; after resignation the name is free again."""
    quorum = Quorum()
    quorum.start(1)
    committed = quorum.image
    request = CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=1, replication_factor=1)])
    first = quorum.controller.create_topics(request, quorum.new_id)
    quorum.controller.replay(first.records, 10, EPOCH)
    second = quorum.controller.create_topics(request, quorum.new_id)
    assert [r.reply.topics[0].error_code for r in (first, second)] == [0, ErrorCode.TOPIC_ALREADY_EXISTS]
    quorum.controller.reset(committed)
    third = quorum.controller.create_topics(request, quorum.new_id)
    assert third.reply.topics[0].error_code == 0
