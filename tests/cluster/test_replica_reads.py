"""Replica id -2, Kafka's debugging consumer: every replica answers it with its own bytes, and nobody else (S4)."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

import pytest
from confluent_kafka import Producer

from hightide.client.cluster import Cluster as Client
from hightide.client.cluster import parse_bootstrap
from hightide.client.fetch import FetchLimits, fetch
from hightide.client.replicas import fetch_replica, replica_ranges
from hightide.client.retries import RetryPolicy
from hightide.errors import ErrorCode
from hightide.runtime.clock import LoopClock
from hightide.runtime.network import SocketNetwork
from hightide.testing import Cluster
from hightide.types import TopicPartition

pytestmark = [pytest.mark.covers("S4"), pytest.mark.xdist_group("replica_reads")]

T = TypeVar("T")
ORDERS = TopicPartition("orders", 0)
LIMITS = FetchLimits(max_wait_ms=0)
RECORDS = 30
WAITED_OUT_MS = 50


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with Cluster(brokers=3) as started:
        started.create_topic("orders", partitions=1, replication_factor=3)
        producer = Producer({"bootstrap.servers": started.bootstrap, "linger.ms": 0, "log_level": 0})
        for number in range(RECORDS):
            producer.produce("orders", b"order %d" % number, partition=0)
            assert producer.flush(30) == 0  # a batch each
        yield started


def visit(cluster: Cluster, work: Callable[[Client], Awaitable[T]]) -> T:
    async def visiting() -> T:
        loop = asyncio.get_running_loop()
        addresses = parse_bootstrap(cluster.bootstrap)
        client = Client(SocketNetwork(loop), LoopClock(loop), addresses, retries=RetryPolicy(give_up_after=5.0))
        try:
            return await work(client)
        finally:
            client.close()

    return asyncio.run(visiting())


def test_every_replica_has_the_same_bytes(cluster: Cluster) -> None:
    async def read_all(client: Client) -> list[bytes]:
        return [bytes((await fetch_replica(client, broker, ORDERS, 0, LIMITS)).records) for broker in (1, 2, 3)]

    first, second, third = visit(cluster, read_all)
    assert first == second == third
    assert first.count(b"order ") == RECORDS


def test_every_replica_tells_its_range(cluster: Cluster) -> None:
    async def ranges(client: Client) -> list[tuple[int, int, ErrorCode]]:
        found = await replica_ranges(client, [1, 2, 3], [(broker, ORDERS) for broker in (1, 2, 3)])
        return [(each.start, each.high_watermark, each.error) for each in found.values()]

    async def until_all_know(client: Client) -> list[tuple[int, int, ErrorCode]]:
        while True:  # followers hear of the last commit with their next fetch
            told = await ranges(client)
            if all(high_watermark == RECORDS for _, high_watermark, _ in told):
                return told

    assert visit(cluster, until_all_know) == [(0, RECORDS, ErrorCode.NONE)] * 3


def test_a_follower_refuses_an_ordinary_consumer(cluster: Cluster) -> None:
    leader = cluster.leader_of("orders", 0)
    follower = next(broker for broker in (1, 2, 3) if broker != leader)

    async def ask(client: Client) -> ErrorCode:
        connection = await client.broker(follower)
        topic = await client.topic("orders")
        (answer,) = await fetch(connection, [topic], {ORDERS: 0}, limits=LIMITS)
        return answer.error

    assert visit(cluster, ask) is ErrorCode.NOT_LEADER_OR_FOLLOWER


def test_a_follower_waits_for_more_and_says_where_an_offset_is_out_of_range(cluster: Cluster) -> None:
    leader = cluster.leader_of("orders", 0)
    follower = next(broker for broker in (1, 2, 3) if broker != leader)

    async def ask(client: Client) -> tuple[int, ErrorCode, ErrorCode, int]:
        waiting = FetchLimits(max_wait_ms=WAITED_OUT_MS)
        at_end = await fetch_replica(client, follower, ORDERS, RECORDS, waiting)
        beyond = await fetch_replica(client, follower, ORDERS, RECORDS + 1, LIMITS)
        return len(at_end.records), at_end.error, beyond.error, beyond.log_start

    assert visit(cluster, ask) == (0, ErrorCode.NONE, ErrorCode.OFFSET_OUT_OF_RANGE, 0)


def test_a_broker_without_the_partition_or_without_life_is_an_answer(cluster: Cluster) -> None:
    cluster.create_topic("elsewhere", assignments={0: [1]})
    elsewhere = TopicPartition("elsewhere", 0)

    async def ask(client: Client) -> list[ErrorCode]:
        found = await replica_ranges(client, [1, 2, 9], [(broker, elsewhere) for broker in (1, 2, 9)])
        return [each.error for each in found.values()]

    assert visit(cluster, ask) == [
        ErrorCode.NONE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.LEADER_NOT_AVAILABLE,
    ]
