"""A bit that turns under what a running broker wrote itself, and nobody reads, is found within the next passes."""

import asyncio

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.producer import Producer
from hightide.limits import SCRUB_PASS_SECONDS_MIN
from hightide.sim.topology import host_of, node_settings
from hightide.sim.world import World
from tests.simulation.visits import visit

TOPIC = "t"
LOG = f"/data/{TOPIC}-0/{0:020d}.log"


def test_a_later_pass_finds_what_turned_under_a_running_broker() -> None:
    world = World(5)
    process, client = world.add_node(host_of(1), node_settings(1, 1)), world.add_client("client")

    async def fill(cluster: Cluster) -> None:
        await Admin(cluster).create_topics([NewTopic(TOPIC, assignments={0: [1]})])
        producer = Producer(cluster)
        await (await producer.send(TOPIC, b"value", partition=0))
        await producer.close()

    def reason() -> str | None:
        assert process.node is not None
        return process.node.partition(TOPIC, 0).offline_reason

    async def story() -> None:
        process.start()
        assert await world.until(lambda: process.is_up)
        await visit(client, 1, fill)
        await asyncio.sleep(5)
        process.disk.flip(LOG, process.disk.open(LOG).size() - 2)
        assert reason() is None, "nobody looked"
        begun = world.now
        assert await world.until(lambda: reason() is not None, 1.1 * SCRUB_PASS_SECONDS_MIN)
        assert world.now - begun > SCRUB_PASS_SECONDS_MIN / 2, "small logs are not looked at all the time"

    world.run(story())
    world.close()
