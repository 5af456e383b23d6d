"""A follower that fell out of its leader's log begins anew, and a crash right after that leaves a log that opens."""

from collections.abc import Awaitable, Callable

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.producer import Producer
from hightide.sim.topology import node_settings
from hightide.sim.world import World
from hightide.types import TopicPartition
from tests.simulation.visits import visit

COUNT = 3
PARTITION = TopicPartition("t", 0)


def test_a_crash_before_the_next_checkpoint() -> None:
    """A log that starts above 0 and was synced since: without its start on disk it looks as if it had lost records."""
    world = World(7)
    nodes = {number: world.add_node(f"broker-{number}", node_settings(number, COUNT)) for number in range(1, COUNT + 1)}
    client = world.add_client("client")

    async def do(work: Callable[[Cluster], Awaitable[object]]) -> None:
        await visit(client, COUNT, work)

    async def produce(cluster: Cluster) -> None:
        producer = Producer(cluster)
        for number in range(5):
            await producer.send("t", b"value %d" % number)
        await producer.close()

    def follower() -> tuple[int, int]:
        node = nodes[3].node
        assert node is not None
        assert (node.offline, nodes[3].is_up) == ({}, True)
        log = node.partition("t", 0).log
        return log.start, log.synced_end

    async def story() -> None:
        for process in nodes.values():
            process.start()
        assert await world.until(lambda: all(process.is_up for process in nodes.values()))
        await do(lambda cluster: Admin(cluster).create_topics([NewTopic("t", assignments={0: [1, 2, 3]})]))
        await do(produce)
        nodes[3].kill()
        await do(produce)
        await do(lambda cluster: Admin(cluster).delete_records({PARTITION: 10}))
        nodes[3].start()
        assert await world.until(lambda: nodes[3].is_up and follower() == (10, 10))
        await do(produce)
        assert await world.until(lambda: follower() == (10, 15))
        nodes[3].kill()
        nodes[3].start()
        assert await world.until(lambda: nodes[3].is_up)
        assert await world.until(lambda: follower() == (10, 15))

    world.run(story())
    world.close()
    assert [str(problem) for problem in world.trace.problems] == []
