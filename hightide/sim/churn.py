"""A client that creates a topic, writes, reads and deletes it again under the same name, for ever.

A topic that was deleted is gone: what is read from its successor was never written before the deletion (R22, K12).
The histories of `sim.history` know no deletions, so this one judges by itself.
"""

from random import Random

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.consumer import Consumer, Range
from hightide.client.offsets import LATEST, list_offsets
from hightide.client.producer import Producer
from hightide.client.retries import sleep
from hightide.errors import ErrorCode
from hightide.sim.trace import Trace
from hightide.sim.workload import DELIVERY_TIMEOUT_SECONDS, ERRORS, Workload
from hightide.sim.world import SimulatedClient
from hightide.types import TopicPartition

TOPIC = "churn"
PAUSE_SECONDS = (1.0, 4.0)
VALUES_MAX = 5
TAG_BYTES = 8  # a value begins with the number of the life it was written in


class Churn:
    """One such client. `lives` counts topics that were created, written, read and deleted."""

    def __init__(self, workload: Workload, trace: Trace, replicas: int) -> None:
        self.lives = 0
        self._workload = workload
        self._trace = trace
        # With less the last member may be a broker that was dead all the time, and whose disk is gone.
        self._topic = NewTopic(TOPIC, 1, replicas, {"min.insync.replicas": str(min(2, replicas))})
        self._tag = 0
        self._dead_below = 0
        """Everything with a lower tag was deleted for good."""

    async def run(self, client: SimulatedClient, random: Random) -> None:
        """Go on until cancelled; errors only make another round of it."""
        while True:
            cluster = self._workload.connect(client)
            self._tag += 1
            try:
                if await self._live(cluster, random):
                    self.lives += 1
            except ERRORS:
                pass
            cluster.close()
            await sleep(client.clock, random.uniform(*PAUSE_SECONDS))

    async def _live(self, cluster: Cluster, random: Random) -> bool:
        admin = Admin(cluster)
        created = (await admin.create_topics([self._topic]))[TOPIC]
        if created is not None and created.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
            return False
        dead_below = self._dead_below
        producer = Producer(cluster, delivery_timeout=DELIVERY_TIMEOUT_SECONDS)
        for number in range(random.randrange(1, VALUES_MAX + 1)):
            await producer.send(TOPIC, self._tag.to_bytes(TAG_BYTES, "big") + b"/%d" % number, partition=0)
        await producer.close()
        await self._read(cluster, dead_below)
        last = self._tag
        if (await admin.delete_topics([TOPIC]))[TOPIC] is None:
            self._dead_below = last + 1
            return True
        return False

    async def _read(self, cluster: Cluster, dead_below: int) -> None:
        where = TopicPartition(TOPIC, 0)
        end = (await list_offsets(cluster, {where: LATEST}))[where].offset
        async for records in Consumer(cluster, {where: Range(0, end)}).batches():
            for record in records:
                tag = int.from_bytes((record.value or b"")[:TAG_BYTES], "big")
                if tag < dead_below:
                    what = f"{TOPIC} has a record of its life {tag}, and it was deleted after {dead_below - 1}"
                    self._trace.report("K12", what)
