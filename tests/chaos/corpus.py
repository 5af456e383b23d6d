"""Valid requests of every API and version that a broker serves to clients, and a mutator that makes them wrong."""

from collections.abc import Iterator, Mapping
from random import Random
from typing import NamedTuple

from hightide.errors import ProtocolError
from hightide.types import ZERO_UUID
from hightide.wire.compression import Codec
from hightide.wire.headers import RequestHeader
from hightide.wire.message import ApiMessage
from hightide.wire.messages import (
    alter_configs,
    create_partitions,
    create_topics,
    delete_records,
    delete_topics,
    describe_configs,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    fetch,
    incremental_alter_configs,
    list_offsets,
    metadata,
    offset_for_leader_epoch,
    produce,
)
from hightide.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from hightide.wire.messages.describe_cluster import DescribeClusterRequest
from hightide.wire.messages.find_coordinator import FindCoordinatorRequest
from hightide.wire.messages.init_producer_id import InitProducerIdRequest
from hightide.wire.messages.list_config_resources import ListConfigResourcesRequest
from hightide.wire.versions import VALID_VERSIONS, request_class
from tests.requests import BROKER, TOPIC, batch

# Whoever may speak these may end a cluster by saying them well: they are for a listener of the brokers' own.
INTER_BROKER = {52, 53, 54, 56, 58, 59, 62, 63, 67, 70, 80, 81, 82}
UNREGISTER_BROKER = 64  # one changed bit names the broker under test, and it rightly leaves the cluster
NOT_FUZZED = INTER_BROKER | {UNREGISTER_BROKER}
OWN_FROM = 10_000
FUZZED = "fuzzed"  # the topic that everything is about; no mutation of a few bytes makes another's name of it
LONGEST_WAIT_MS = 50


class Sample(NamedTuple):
    """One valid request, without its length."""

    api_key: int
    version: int
    payload: bytes


def served(answer: ApiVersionsResponse) -> dict[int, range]:
    """The versions of every API that a broker advertises to clients and that really exist."""
    found = {}
    for api in answer.api_keys:
        if api.api_key not in NOT_FUZZED and api.api_key < OWN_FROM:
            first, last = VALID_VERSIONS[api.api_key]
            found[api.api_key] = range(max(first, api.min_version), min(last, api.max_version) + 1)
    return found


def samples(apis: Mapping[int, range], topic_id: bytes = ZERO_UUID) -> list[Sample]:
    """At least one sample per served API and version."""
    found = []
    for key, versions in sorted(apis.items()):
        for version in versions:
            encoded = list(_encoded(key, version, topic_id))
            assert encoded, f"nothing says API {key} in version {version}"
            found += encoded
    return found


def _encoded(key: int, version: int, topic_id: bytes) -> Iterator[Sample]:
    everything = [message for message in _requests(topic_id) if message.api_key == key]
    for message in everything or [request_class(key)()]:
        out = bytearray()
        RequestHeader(key, version, 77, "fuzzer").write(out)
        try:
            out += message.encode(version)
        except ProtocolError:  # says more than this version can
            continue
        yield Sample(key, version, bytes(out))


def _requests(topic_id: bytes) -> Iterator[ApiMessage]:
    yield from _reads_and_writes(topic_id)
    yield from _questions()
    yield from _commands()


def _reads_and_writes(topic_id: bytes) -> Iterator[ApiMessage]:
    for codec in (Codec.NONE, Codec.GZIP, Codec.ZSTD):
        records = batch([b"value", b"another"], codec=codec, producer_id=900 + codec, producer_epoch=0, base_sequence=0)
        for named in ({"name": FUZZED}, {"topic_id": topic_id}):
            data = [produce.PartitionProduceData(index=index, records=records) for index in range(2)]
            yield produce.ProduceRequest(
                acks=-1,
                timeout_ms=1000,
                topic_data=[produce.TopicProduceData(partition_data=data, **named)],
            )
    for named in ({"topic": FUZZED}, {"topic_id": topic_id}):
        asked = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1 << 20)
        for session_epoch in (-1, 0):
            yield fetch.FetchRequest(
                max_wait_ms=LONGEST_WAIT_MS, min_bytes=1, max_bytes=1 << 20, session_epoch=session_epoch,
                topics=[fetch.FetchTopic(partitions=[asked], **named)],
            )  # fmt: skip
        forgotten = fetch.ForgottenTopic(partitions=[0, 1], **named)
        yield fetch.FetchRequest(session_id=1, session_epoch=1, forgotten_topics_data=[forgotten])


def _questions() -> Iterator[ApiMessage]:
    yield ApiVersionsRequest(client_software_name="fuzzer", client_software_version="1.0")
    yield ApiVersionsRequest()
    yield metadata.MetadataRequest(topics=[metadata.MetadataRequestTopic(name=FUZZED)])
    yield metadata.MetadataRequest(topics=None)
    yield metadata.MetadataRequest(topics=[])
    for timestamp in (-1, -2, -3, 1_700_000_000_000):
        asked = list_offsets.ListOffsetsPartition(partition_index=0, timestamp=timestamp)
        yield list_offsets.ListOffsetsRequest(
            replica_id=-1, topics=[list_offsets.ListOffsetsTopic(name=FUZZED, partitions=[asked])]
        )
    yield FindCoordinatorRequest(key="group")
    yield FindCoordinatorRequest(coordinator_keys=["group", "other"])
    epoch = offset_for_leader_epoch.OffsetForLeaderPartition(partition=0, leader_epoch=0)
    yield offset_for_leader_epoch.OffsetForLeaderEpochRequest(
        replica_id=-1, topics=[offset_for_leader_epoch.OffsetForLeaderTopic(topic=FUZZED, partitions=[epoch])]
    )
    for kind, name in ((TOPIC, FUZZED), (BROKER, "1"), (BROKER, "")):
        resource = describe_configs.DescribeConfigsResource(
            resource_type=kind, resource_name=name, configuration_keys=None
        )
        yield describe_configs.DescribeConfigsRequest(resources=[resource], include_synonyms=True)
    yield describe_log_dirs.DescribeLogDirsRequest(topics=None)
    yield describe_log_dirs.DescribeLogDirsRequest(
        topics=[describe_log_dirs.DescribableLogDirTopic(topic=FUZZED, partitions=[0, 1])]
    )
    yield DescribeClusterRequest()
    yield describe_producers.DescribeProducersRequest(
        topics=[describe_producers.TopicRequest(name=FUZZED, partition_indexes=[0, 1])]
    )
    yield ListConfigResourcesRequest()
    yield ListConfigResourcesRequest(resource_types=[TOPIC, BROKER])
    yield describe_topic_partitions.DescribeTopicPartitionsRequest(
        topics=[describe_topic_partitions.TopicRequest(name=FUZZED)],
        cursor=describe_topic_partitions.DescribeTopicPartitionsRequestCursor(topic_name=FUZZED, partition_index=0),
    )


def _commands() -> Iterator[ApiMessage]:
    """Those that make partitions say how many by listing them: a flipped bit must not ask for ten thousand."""
    assigned = [create_topics.CreatableReplicaAssignment(partition_index=index, broker_ids=[1]) for index in range(2)]
    config = create_topics.CreatableTopicConfig(name="retention.ms", value="100000")
    made = create_topics.CreatableTopic(
        name="made", num_partitions=-1, replication_factor=-1, assignments=assigned, configs=[config]
    )
    counted = create_topics.CreatableTopic(name="counted", num_partitions=3, replication_factor=1)
    yield create_topics.CreateTopicsRequest(topics=[made])
    yield create_topics.CreateTopicsRequest(topics=[counted], validate_only=True)
    yield delete_topics.DeleteTopicsRequest(topic_names=["made"], timeout_ms=1000)
    yield delete_topics.DeleteTopicsRequest(topics=[delete_topics.DeleteTopicState(name="made")], timeout_ms=1000)
    gone = delete_records.DeleteRecordsPartition(partition_index=0, offset=1)
    yield delete_records.DeleteRecordsRequest(
        topics=[delete_records.DeleteRecordsTopic(name=FUZZED, partitions=[gone])], timeout_ms=1000
    )
    yield InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60_000)
    yield InitProducerIdRequest(transactional_id="transaction", transaction_timeout_ms=60_000)
    replaced = alter_configs.AlterableConfig(name="retention.ms", value="200000")
    yield alter_configs.AlterConfigsRequest(
        resources=[alter_configs.AlterConfigsResource(resource_type=TOPIC, resource_name=FUZZED, configs=[replaced])]
    )
    for operation in range(4):
        changed = incremental_alter_configs.AlterableConfig(
            name="cleanup.policy", config_operation=operation, value="delete"
        )
        resource = incremental_alter_configs.AlterConfigsResource(
            resource_type=TOPIC, resource_name=FUZZED, configs=[changed]
        )
        yield incremental_alter_configs.IncrementalAlterConfigsRequest(resources=[resource])
    more = create_partitions.CreatePartitionsAssignment(broker_ids=[1])
    yield create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name="made", count=3, assignments=[more])], timeout_ms=1000
    )
    yield create_partitions.CreatePartitionsRequest(
        topics=[create_partitions.CreatePartitionsTopic(name=FUZZED, count=5, assignments=None)], validate_only=True
    )


INTERESTING = [0, 1, 2, 0x7F, 0x80, 0xFF, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
HEADER_BYTES = 8  # key, version, correlation id: spared most of the time, or nothing gets behind them


class Mutator:
    """Makes frames out of samples, with the length in front. The same seed gives the same frames."""

    def __init__(self, seed: object, corpus: list[Sample]) -> None:
        self._random = Random(f"{seed}:frames")
        self._corpus = corpus

    def frame(self) -> bytes:
        """One frame, most of the time only slightly wrong."""
        random = self._random
        data = bytearray(random.choice(self._corpus).payload)
        first = 0 if random.random() < 0.1 else HEADER_BYTES
        for _ in range(random.choice((1, 1, 1, 2, 2, 3, 8))):
            if len(data) <= first:
                break
            self._mutate(data, first)
        length = len(data)
        if random.random() < 0.03:
            length = random.choice((length - 1, length + 1, 0, -1, 2**31 - 1, random.randrange(2**31)))
        return (length & 0xFFFFFFFF).to_bytes(4) + bytes(data)

    def _mutate(self, data: bytearray, first: int) -> None:
        random = self._random
        place = random.randrange(first, len(data))
        kind = random.randrange(7)
        if kind == 0:
            data[place] ^= 1 << random.randrange(8)
        elif kind == 1:
            data[place] = random.randrange(256)
        elif kind == 2:
            width = random.choice((1, 2, 4))
            data[place : place + width] = (random.choice(INTERESTING) & (256**width - 1)).to_bytes(width)
        elif kind == 3:
            del data[place : place + random.choice((1, 2, 4, 16))]
        elif kind == 4:
            data[place:place] = random.randbytes(random.choice((1, 2, 4, 16)))
        elif kind == 5:
            del data[place:]
        else:
            other = random.choice(self._corpus).payload
            data[place:] = other[random.randrange(len(other)) :]
