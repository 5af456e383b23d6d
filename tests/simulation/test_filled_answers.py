"""What other partitions leave of a follower's answer goes to those that have more, unless followers are throttled."""

from collections.abc import Mapping

import pytest

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.configs import Resource, ResourceType, alter_configs
from hightide.client.producer import Producer
from hightide.sim.topology import host_of, node_settings
from hightide.sim.world import World
from tests.simulation.visits import visit

COUNT = 3
AWAY = 3
RECORDS, RECORD_BYTES = 600, 1000
BATCH_BYTES = RECORD_BYTES + 80  # nearly: the rest is the batch around it
PIECE_BYTES = 5_000
FILLED = {"replicated": 4, "fsync": 8}  # pieces, at most: a sync for each answer is worth more of them


def answers_needed(
    partitions: int,
    brokers: Mapping[str, str] | None = None,
    response_bytes: int = 1 << 20,
    durability: str = "replicated",
) -> int:
    """How many answers with records node 3 needs to have all partitions again, all led by node 1, when it returns."""
    world = World(7)
    own = {"replica.fetch.max.bytes": str(PIECE_BYTES), "replica.fetch.response.max.bytes": str(response_bytes)}
    nodes = {
        number: world.add_node(host_of(number), node_settings(number, COUNT) | own) for number in range(1, COUNT + 1)
    }
    client = world.add_client("client")
    wanted = NewTopic(
        "t",
        configs={"hightide.durability": durability},
        assignments={index: [1, 2, 3] for index in range(partitions)},
    )

    async def produce(cluster: Cluster) -> None:
        producer = Producer(cluster)
        for index in range(partitions):
            for _ in range(RECORDS):
                await (await producer.send("t", bytes(RECORD_BYTES), partition=index))
        await producer.close()

    def has_all() -> bool:
        node = nodes[AWAY].node
        return node is not None and all(node.partition("t", each).log.end == RECORDS for each in range(partitions))

    async def tell() -> int:
        for process in nodes.values():
            process.start()
        assert await world.until(lambda: all(process.is_up for process in nodes.values()))
        await visit(client, COUNT, lambda cluster: Admin(cluster).create_topics([wanted]))
        if brokers:
            settings = brokers
            every = Resource(ResourceType.BROKER, "")
            await visit(client, COUNT, lambda cluster: alter_configs(cluster, every, settings))
        nodes[AWAY].kill()
        await visit(client, COUNT, produce)
        leader = nodes[1].node
        assert leader is not None
        before = leader.stats.fetches
        nodes[AWAY].start()
        assert await world.until(lambda: nodes[AWAY].is_up)
        assert await world.until(has_all, 60)
        return leader.stats.fetches - before

    needed = world.run(tell())
    world.close()
    assert [str(problem) for problem in world.trace.problems] == []
    return needed


BEHIND_BYTES = RECORDS * BATCH_BYTES
OTHERS = 12  # requests of node 2, which is in sync, and of node 3 before it lists what it follows


@pytest.mark.parametrize(("durability", "pieces"), FILLED.items())
def test_a_lone_partition_fills_the_answer(durability: str, pieces: int) -> None:
    expected = BEHIND_BYTES / (pieces * PIECE_BYTES)
    assert expected <= answers_needed(1, durability=durability) <= expected + OTHERS < 2 * expected


def test_not_while_followers_are_throttled() -> None:
    rate = {"leader.replication.throttled.rate": str(1 << 40)}
    assert answers_needed(1, rate) >= BEHIND_BYTES / PIECE_BYTES


@pytest.mark.parametrize("pieces", [2, 8])
def test_an_answer_is_shared_and_no_longer_than_allowed(pieces: int) -> None:
    """Four partitions are behind: an answer of two pieces is full with each's half, one of eight takes two of each."""
    needed = answers_needed(4, response_bytes=pieces * PIECE_BYTES)
    expected = 4 * BEHIND_BYTES / (pieces * PIECE_BYTES)
    assert expected <= needed <= 1.5 * expected + OTHERS
