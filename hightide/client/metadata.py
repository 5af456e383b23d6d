"""What a client knows about the cluster since its last Metadata answer: plain values, kept fresh by `cluster.py`."""

from typing import NamedTuple

from hightide.client.answers import code_of
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.messages.metadata import MetadataResponse, MetadataResponseTopic


class Broker(NamedTuple):
    """A broker as clients reach it."""

    id: int
    host: str
    port: int
    rack: str | None

    @property
    def address(self) -> str:
        """host:port."""
        return f"{self.host}:{self.port}"


class Partition(NamedTuple):
    """One partition: who leads it, who follows."""

    number: int
    error: ErrorCode
    leader: int
    leader_epoch: int
    replicas: list[int]
    in_sync_replicas: list[int]
    offline_replicas: list[int]


class Topic(NamedTuple):
    """A topic with its partitions in order of their index."""

    name: str
    id: bytes
    internal: bool
    partitions: dict[int, Partition]

    def partition(self, index: int) -> Partition:
        """One partition; UNKNOWN_TOPIC_OR_PARTITION when there is none of that number."""
        try:
            return self.partitions[index]
        except KeyError:
            what = f"topic {self.name} has partitions 0 to {len(self.partitions) - 1}, not {index}"
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what) from None

    def leader(self, index: int) -> Partition:
        """The partition, which has a leader; LEADER_NOT_AVAILABLE otherwise."""
        partition = self.partition(index)
        if partition.leader < 0:
            where = TopicPartition(self.name, index)
            raise ApiError(ErrorCode.LEADER_NOT_AVAILABLE, f"partition {where} has no leader")
        return partition


class ClusterMetadata:
    """Brokers by id, topics by name, and the errors of topics that could not be described."""

    def __init__(self, response: MetadataResponse) -> None:
        self.cluster_id = response.cluster_id
        self.controller_id = response.controller_id
        self.brokers = {
            broker.node_id: Broker(broker.node_id, broker.host, broker.port, broker.rack) for broker in response.brokers
        }
        self.topics: dict[str, Topic] = {}
        self.errors: dict[str, ErrorCode] = {}
        for topic in response.topics:
            if topic.name is None:
                continue
            if topic.error_code:
                self.errors[topic.name] = code_of(topic.error_code)
            else:
                self.topics[topic.name] = _topic(topic.name, topic)

    def topic(self, name: str) -> Topic:
        """A topic that was asked for; its error otherwise."""
        if name in self.topics:
            return self.topics[name]
        raise ApiError(self.errors.get(name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION), f"topic {name}")


def _topic(name: str, topic: MetadataResponseTopic) -> Topic:
    partitions = {
        partition.partition_index: Partition(
            partition.partition_index,
            code_of(partition.error_code),
            partition.leader_id,
            partition.leader_epoch,
            partition.replica_nodes,
            partition.isr_nodes,
            partition.offline_replicas,
        )
        for partition in sorted(topic.partitions, key=lambda partition: partition.partition_index)
    }
    return Topic(name, topic.topic_id, topic.is_internal, partitions)
