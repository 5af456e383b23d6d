"""What the comparison asks a cluster of either system: topics made and removed, who leads, who is in sync, how much
is there.

Plain requests over plain sockets, in versions both systems have. Each waits until what it asked for is true everywhere,
because a run must not pay for its own preparations.
"""

import time
from collections.abc import Callable, Mapping
from typing import TypeVar

from bench import requests
from bench.clusters import Cluster, Server
from bench.programs import FailedError
from hightide.errors import ErrorCode
from hightide.wire.headers import read_response_header
from hightide.wire.message import ApiMessage
from hightide.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
from hightide.wire.messages.describe_quorum import (
    DescribeQuorumRequest,
    DescribeQuorumRequestPartitionData,
    DescribeQuorumRequestTopicData,
    DescribeQuorumResponse,
)
from hightide.wire.messages.list_offsets import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    ListOffsetsTopic,
)
from hightide.wire.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponsePartition,
)
from hightide.wire.primitives import Reader

METADATA_VERSION = 7
DELETE_TOPICS_VERSION = 3
WAIT_SECONDS_MAX = 60.0
POLL_SECONDS = 0.02
MIN_IN_SYNC = "min.insync.replicas"
METADATA_TOPIC, DESCRIBE_QUORUM_VERSION = "__cluster_metadata", 0
UNKNOWN = -1
CALM_SECONDS = 1.0

Answer = TypeVar("Answer", bound=ApiMessage)


def ask(server: Server, request: ApiMessage, version: int, answer: type[Answer]) -> Answer:
    """One request over a connection of its own; OSError when the server is not there."""
    with requests.connect(server.port) as connection:
        reader = Reader(requests.exchange(connection, requests.request_frame(request, version)))
    read_response_header(reader, request.api_key, version)
    return answer.read(reader, version)


def await_brokers(cluster: Cluster) -> None:
    """Wait until every server answers and names all the others."""

    def together() -> bool:
        return all(_known_brokers(server) == len(everybody) for server in everybody)

    everybody = cluster.servers
    for server in everybody:
        server.connect().close()
    _wait(cluster, together, "do not all know each other")


def await_calm(cluster: Cluster) -> None:
    """Wait until the servers have known each other, and who leads their quorum, for `CALM_SECONDS`: servers that stood
    still find their sessions and their elections run out."""
    seen: list[int] = []
    since = time.monotonic()

    def calm() -> bool:
        nonlocal seen, since
        before, seen = seen, []
        seen = [active_controller(cluster), *(_known_brokers(server) for server in cluster.servers)]
        if seen != before or UNKNOWN in seen:
            since = time.monotonic()
        return seen[1:] == [len(cluster.servers)] * len(cluster.servers) and time.monotonic() - since >= CALM_SECONDS

    _wait(cluster, calm, "do not come to rest")


def _known_brokers(server: Server) -> int:
    return len(ask(server, MetadataRequest(topics=[]), METADATA_VERSION, MetadataResponse).brokers)


def create_topic(
    cluster: Cluster,
    topic: str,
    partitions: int,
    replication_factor: int,
    settings: Mapping[str, str],
    *,
    leader: int | None = None,
) -> None:
    """Create a topic and wait until all its replicas are in sync and every broker knows the leaders. `leader` is the
    first replica of its only partition, on all brokers."""
    configs = [CreatableTopicConfig(name=name, value=value) for name, value in settings.items()]
    wanted = CreatableTopic(
        name=topic, num_partitions=partitions, replication_factor=replication_factor, configs=configs
    )  # fmt: skip
    if leader is not None:
        others = [server.node_id for server in cluster.servers if server.node_id != leader]
        wanted.num_partitions = wanted.replication_factor = -1
        wanted.assignments = [CreatableReplicaAssignment(partition_index=0, broker_ids=[leader, *others])]
    request = CreateTopicsRequest(topics=[wanted], timeout_ms=30_000)

    def created() -> bool:
        answer = ask(cluster.any_server(), request, requests.CREATE_TOPICS_VERSION, CreateTopicsResponse)
        error = ErrorCode(answer.topics[0].error_code)
        if error in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
            return True
        if error in (ErrorCode.INVALID_CONFIG, ErrorCode.POLICY_VIOLATION, ErrorCode.INVALID_REQUEST):
            raise FailedError(f"{cluster.system} refuses the topic: {error.name} {answer.topics[0].error_message}")
        return False

    _wait(cluster, created, f"do not create {topic}")
    await_in_sync(cluster, topic, partitions, replication_factor)
    _wait(cluster, lambda: record_count(cluster, topic) == 0, f"do not lead {topic}")


def await_in_sync(cluster: Cluster, topic: str, partitions: int, replicas: int) -> None:
    """Wait until every server that lives sees all partitions led and that many replicas in sync."""

    def in_sync() -> bool:
        for server in cluster.servers:
            if server.alive:
                seen = topic_partitions(server, topic)
                if len(seen) != partitions or not all(
                    partition.leader_id >= 0 and len(partition.isr_nodes) >= replicas for partition in seen
                ):
                    return False
        return True

    _wait(cluster, in_sync, f"do not have {topic} in sync")


def topic_partitions(server: Server, topic: str) -> list[MetadataResponsePartition]:
    """The partitions that one server knows, in order; none when it does not know the topic."""
    request = MetadataRequest(topics=[MetadataRequestTopic(name=topic)], allow_auto_topic_creation=False)
    found = ask(server, request, METADATA_VERSION, MetadataResponse).topics
    if not found or found[0].error_code:
        return []
    return sorted(found[0].partitions, key=lambda partition: partition.partition_index)


def leader_of(cluster: Cluster, topic: str, partition: int = 0) -> Server:
    """The server that leads a partition."""
    partitions = topic_partitions(cluster.any_server(), topic)
    return cluster.server(partitions[partition].leader_id)


def active_controller(cluster: Cluster) -> int:
    """The node that leads the metadata quorum."""
    partition = DescribeQuorumRequestPartitionData(partition_index=0)
    topic = DescribeQuorumRequestTopicData(topic_name=METADATA_TOPIC, partitions=[partition])
    request = DescribeQuorumRequest(topics=[topic])
    answer = ask(cluster.any_server(), request, DESCRIBE_QUORUM_VERSION, DescribeQuorumResponse)
    return answer.topics[0].partitions[0].leader_id


def delete_topic(cluster: Cluster, topic: str) -> None:
    """Delete a topic and wait until its files are gone too: their removal is work that no other run shall see."""
    request = DeleteTopicsRequest(topic_names=[topic], timeout_ms=30_000)

    def deleted() -> bool:
        answer = ask(cluster.any_server(), request, DELETE_TOPICS_VERSION, DeleteTopicsResponse)
        return answer.responses[0].error_code in (ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)

    def gone() -> bool:
        return not any(
            any(server.data.glob(f"{topic}-*")) or any(server.data.glob("*-delete")) for server in cluster.servers
        )

    _wait(cluster, deleted, f"do not delete {topic}")
    _wait(cluster, gone, f"keep the files of {topic}")


def record_count(cluster: Cluster, topic: str) -> int:
    """How many records consumers can see, over all partitions; `UNKNOWN` while a leader does not say."""
    by_leader: dict[int, list[int]] = {}
    for partition in topic_partitions(cluster.any_server(), topic):
        by_leader.setdefault(partition.leader_id, []).append(partition.partition_index)
    total = 0
    for node_id, indexes in by_leader.items():
        wanted = [ListOffsetsPartition(partition_index=index, timestamp=requests.LATEST) for index in indexes]
        request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name=topic, partitions=wanted)])
        answer = ask(cluster.server(node_id), request, requests.LIST_OFFSETS_VERSION, ListOffsetsResponse)
        ends = answer.topics[0].partitions
        if any(end.error_code for end in ends):
            return UNKNOWN
        total += sum(end.offset for end in ends)
    return total


def expect_records(cluster: Cluster, topic: str, count: int) -> None:
    """Everything acknowledged is there, or the run counts for nothing. A producer that was interrupted may have sent a
    record twice, which no run here is."""
    seen = 0

    def there() -> bool:
        nonlocal seen
        seen = record_count(cluster, topic)
        return seen == count

    _wait(cluster, there, f"acknowledged {count} records of {topic} and have a different number", seconds_max=10.0)


def _wait(
    cluster: Cluster, question: Callable[[], bool], otherwise: str, seconds_max: float = WAIT_SECONDS_MAX
) -> None:
    """Ask until the answer is yes; a server that is not there yet is asked again."""
    deadline = time.monotonic() + seconds_max
    trouble = ""
    while True:
        try:
            if question():
                return
        except OSError as error:
            trouble = f" ({error})"
        if time.monotonic() > deadline:
            raise FailedError(f"brokers of {cluster.system} {otherwise}, after {seconds_max:.0f} s{trouble}")
        time.sleep(POLL_SECONDS)
