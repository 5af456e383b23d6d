"""Metadata: asked when needed, kept while fresh, asked again at once when it is wrong."""

import asyncio

import pytest

from hightide.client.cluster import METADATA_AGE_SECONDS_MAX, Cluster, parse_bootstrap
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition
from hightide.wire.messages.list_offsets import ListOffsetsRequest
from hightide.wire.messages.metadata import MetadataRequest
from tests.unit.client.memory_cluster import MemoryCluster

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.mark.parametrize(
    ("text", "addresses"),
    [
        ("127.0.0.1:9092", [("127.0.0.1", 9092)]),
        (" a:1, b:2 ,", [("a", 1), ("b", 2)]),
        ("[::1]:9092", [("::1", 9092)]),
    ],
)
def test_bootstrap_addresses(text: str, addresses: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(text) == addresses


@pytest.mark.parametrize("text", ["", "host", "host:", ":9092", "host:port", "host:0", "host:70000"])
def test_addresses_that_are_none(text: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        parse_bootstrap(text)


def test_metadata_is_kept_while_fresh() -> None:
    memory = MemoryCluster(topics={"t": 2, "u": 1})

    async def work() -> list[int]:
        cluster = memory.client()
        asked = []
        for name in ("t", "t", "u", "t", "u"):
            await cluster.topic(name)
            asked.append(len(memory.requests(MetadataRequest)))
        memory.clock.time += METADATA_AGE_SECONDS_MAX
        await cluster.topic("t")
        asked.append(len(memory.requests(MetadataRequest)))
        return asked

    assert memory.run(work()) == [1, 1, 2, 2, 2, 3]
    assert [topic.name for topic in memory.requests(MetadataRequest)[-1].topics or ()] == ["t", "u"]


def test_those_who_ask_together_share_one_answer() -> None:
    memory = MemoryCluster(topics={"t": 2})

    async def work() -> None:
        cluster = memory.client()
        await asyncio.gather(*(cluster.topic("t") for _ in range(10)))

    memory.run(work())
    assert len(memory.requests(MetadataRequest)) == 1
    assert len(memory.connections) == 1


def test_an_unknown_topic_is_never_remembered_as_missing() -> None:
    memory = MemoryCluster()

    async def work() -> int:
        cluster = memory.client()
        with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await cluster.topic("t")
        memory.topics["t"] = 1
        memory.leaders[T0] = 1
        return len((await cluster.topic("t")).partitions)

    assert memory.run(work()) == 1


@pytest.mark.covers("C26")
@pytest.mark.parametrize("code", [ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH])
def test_a_leader_that_moved_is_looked_up_at_once(code: ErrorCode) -> None:
    memory = MemoryCluster(brokers=2, topics={"t": 1})

    async def work() -> int:
        cluster = memory.client()
        await cluster.topic("t")
        memory.leaders[T0] = 2
        memory.fail(ListOffsetsRequest, code)
        memory.ends[T0] = 9
        return (await list_offsets(cluster, {T0: LATEST}))[T0].offset

    assert memory.run(work()) == 9
    assert [broker for broker, request in memory.seen if isinstance(request, ListOffsetsRequest)] == [1, 2]


def test_offsets_are_asked_of_each_leader_together() -> None:
    memory = MemoryCluster(brokers=2, topics={"t": 2})
    memory.starts[T1] = 3
    found = memory.run(list_offsets(memory.client(), {T0: EARLIEST, T1: EARLIEST}))
    assert {where: answer.offset for where, answer in found.items()} == {T0: 0, T1: 3}
    assert len(memory.requests(ListOffsetsRequest)) == 2


def test_another_bootstrap_address_answers() -> None:
    memory = MemoryCluster(brokers=2, topics={"t": 1})
    memory.down.add(1)

    async def work() -> str | None:
        cluster = Cluster(memory, memory.clock, [("broker", 9001), ("broker", 9002)])
        return (await cluster.metadata()).cluster_id

    assert memory.run(work()) == "memory"


def test_no_broker_at_the_first_visit_is_said_at_once() -> None:
    memory = MemoryCluster()
    memory.down.add(1)
    before = memory.clock.now()
    with pytest.raises(ApiError, match="no broker answers") as caught:
        memory.run(list_offsets(memory.client(), {T0: LATEST}))
    assert caught.value.code is ErrorCode.BROKER_NOT_AVAILABLE
    assert memory.clock.now() == before


def test_brokers_that_go_away_for_a_while_are_waited_for() -> None:
    memory = MemoryCluster(topics={"t": 1})

    async def work() -> int:
        cluster = memory.client()
        await cluster.topic("t")
        memory.down.add(1)
        memory.connections[0].close()
        memory.clock.call_later(4.0, memory.down.clear)
        return (await list_offsets(cluster, {T0: LATEST}))[T0].offset

    assert memory.run(work()) == 0


def test_a_partition_or_leader_that_is_not_there() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.leaders[T0] = -1

    async def work() -> None:
        topic = await memory.client().topic("t")
        with pytest.raises(ApiError, match="partitions 0 to 0, not 7"):
            topic.partition(7)
        with pytest.raises(ApiError, match="t-0 has no leader"):
            topic.leader(0)

    memory.run(work())
