"""Clients that keep a cluster busy and tell a history everything they do and are told.

Producers send unique values with acks=all, idempotent, several in flight; readers follow the log, one of them jumping
back now and then; an observer asks for the latest offsets. All of them are the real client library on hosts of their
own, and none ever gives up: an error ends an operation, and the next one begins.
"""

import asyncio
from collections.abc import Sequence
from functools import partial
from random import Random

from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.consumer import ConsumedRecord, Consumer, Range
from hightide.client.fetch import FetchLimits
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.client.outbox import Delivered
from hightide.client.producer import Producer
from hightide.client.retries import RetryPolicy, sleep
from hightide.errors import ApiError, ProtocolError
from hightide.sim.history.operations import Mark, Polled, Send
from hightide.sim.history.recorder import History
from hightide.sim.world import SimulatedClient
from hightide.types import NO_OFFSET, TopicPartition

TOPIC = "journal"
REQUEST_TIMEOUT_SECONDS = 5.0
RETRIES = RetryPolicy(first_pause=0.05, longest_pause=1.0, give_up_after=15.0)
DELIVERY_TIMEOUT_SECONDS = 20.0  # longer than most faults, shorter than some: unknown outcomes happen
BURST_MAX = 14
PAUSE_SECONDS = (0.2, 1.4)
READ_PAUSE_SECONDS = 0.8  # between polls: readers that take every batch by itself cost more than they find
WAITING_MAX = 200  # sends on their way: more would only test the client's memory
VALUE_BYTES = (10, 200)
LARGE_VALUE_CHANCE, LARGE_VALUE_BYTES = 0.02, 20_000
READ_LIMITS = FetchLimits(max_wait_ms=500, partition_max_bytes=64 * 1024)
JUMP_CHANCE, JUMP_MAX = 0.02, 200
OBSERVE_SECONDS = 1.0
ERRORS = (ApiError, ProtocolError)


class Workload:
    """What all clients of one cluster share."""

    def __init__(
        self, history: History, bootstrap: Sequence[tuple[str, int]], partitions: int, replicas: int = 1
    ) -> None:
        self.history = history
        self.partitions = [TopicPartition(TOPIC, index) for index in range(partitions)]
        self.is_stopping = False
        self.acknowledged = 0
        self.acknowledged_ends: dict[TopicPartition, int] = {}
        self.waiting = 0
        self._bootstrap = list(bootstrap)
        self._replicas = replicas

    def connect(self, client: SimulatedClient) -> Cluster:
        """The cluster, for a program on that host."""
        return client.cluster(self._bootstrap, retries=RETRIES, request_timeout=REQUEST_TIMEOUT_SECONDS)

    async def create_topic(self, client: SimulatedClient, settings: dict[str, str]) -> bool:
        """Create the topic; whether it worked."""
        cluster = self.connect(client)
        topic = NewTopic(TOPIC, len(self.partitions), self._replicas, settings)
        try:
            outcomes = await Admin(cluster).create_topics([topic])
        except ERRORS:
            return False
        finally:
            cluster.close()
        return outcomes[TOPIC] is None

    # ------------------------------------------------------------------ producers

    async def produce(self, client: SimulatedClient, random: Random) -> None:
        """Send until told to stop."""
        cluster = self.connect(client)
        producer = Producer(cluster, delivery_timeout=DELIVERY_TIMEOUT_SECONDS)
        number = 0
        while not self.is_stopping:
            for _ in range(random.randrange(1, BURST_MAX + 1)):
                number += 1
                await self.send(producer, client.name, random.choice(self.partitions), number, random)
            await sleep(client.clock, random.uniform(*PAUSE_SECONDS))
            while self.waiting > WAITING_MAX:
                await sleep(client.clock, PAUSE_SECONDS[1])
        await producer.close()
        cluster.close()

    async def send(
        self, producer: Producer, name: str, where: TopicPartition, number: int, random: Random
    ) -> "asyncio.Future[Delivered] | None":
        """Send one value of this client; the history hears what becomes of it."""
        low, high = VALUE_BYTES
        size = LARGE_VALUE_BYTES if random.random() < LARGE_VALUE_CHANCE else random.randrange(low, high)
        value = b"%s/%d" % (name.encode(), number)
        send = self.history.begin_send(name, where, value)
        try:
            key = random.randbytes(size)  # the value stays short: histories hold it
            future = await producer.send(where.topic, value, key=key, partition=where.partition)
        except ERRORS as error:
            self.history.failed(send, str(error))
            return None
        self.waiting += 1
        future.add_done_callback(partial(self._answered, send))
        return future

    def _answered(self, send: Send, future: "asyncio.Future[Delivered]") -> None:
        self.waiting -= 1
        if future.cancelled():
            self.history.unknown(send, "given up")
        elif (error := future.exception()) is not None:
            self.history.unknown(send, str(error))
        else:
            self.acknowledged += 1
            offset = future.result().offset
            self.acknowledged_ends[send.partition] = max(offset + 1, self.acknowledged_ends.get(send.partition, 0))
            self.history.acknowledged(send, offset)

    # ------------------------------------------------------------------ readers

    async def read(self, client: SimulatedClient, random: Random, *, jumps: bool) -> None:
        """Follow all partitions until cancelled; one that jumps goes back to some earlier offset now and then."""
        positions = dict.fromkeys(self.partitions, 0)
        while True:
            cluster = self.connect(client)
            consumer = Consumer(
                cluster, {where: Range(offset) for where, offset in positions.items()}, limits=READ_LIMITS
            )
            poll = self.history.begin_poll(client.name)
            try:
                async for records in consumer.batches():
                    self.history.polled(poll, [_polled(record) for record in records])
                    positions.update(consumer.positions)
                    if jumps and random.random() < JUMP_CHANCE:
                        break
                    await sleep(client.clock, random.random() * READ_PAUSE_SECONDS)
                    poll = self.history.begin_poll(client.name)
            except ERRORS as error:
                self.history.failed(poll, str(error))
                await sleep(client.clock, PAUSE_SECONDS[1])
            cluster.close()
            if jumps:
                positions = {where: max(0, offset - random.randrange(JUMP_MAX)) for where, offset in positions.items()}
                self.history.positioned(client.name, positions)

    async def observe(self, client: SimulatedClient) -> None:
        """Ask for the latest offsets until cancelled."""
        cluster = self.connect(client)
        while True:
            for where in self.partitions:
                asked = self.history.moment()
                try:
                    found = (await list_offsets(cluster, {where: LATEST}))[where]
                except ERRORS:
                    continue
                self.history.observed(
                    client.name, where, Mark.LATEST, found.offset, asked=asked, leader_epoch=found.leader_epoch
                )
            await sleep(client.clock, OBSERVE_SECONDS)

    # ------------------------------------------------------------------ the end

    async def write_last(self, client: SimulatedClient, random: Random) -> list[str]:
        """One more record everywhere; what kept partitions from taking it."""
        cluster = self.connect(client)
        producer = Producer(cluster, delivery_timeout=DELIVERY_TIMEOUT_SECONDS)
        refused = []
        for number, where in enumerate(self.partitions):
            future = await self.send(producer, client.name, where, number, random)
            if future is None:
                refused.append(f"{where} is not known")
                continue
            await asyncio.wait([future])
            if (error := future.exception()) is not None:
                refused.append(str(error))
        await producer.close()
        while self.waiting:  # the history hears of an answer in a turn of the loop of its own
            await sleep(client.clock, PAUSE_SECONDS[0])
        cluster.close()
        return refused

    async def read_everything(self, client: SimulatedClient) -> None:
        """A fresh client reads from the start to the end of every partition; ApiError when it can't."""
        read = self.history.begin_final_read(client.name, self.partitions)
        cluster = self.connect(client)
        try:
            starts = await list_offsets(cluster, dict.fromkeys(self.partitions, EARLIEST))
            ends = await list_offsets(cluster, dict.fromkeys(self.partitions, LATEST))
            ranges = {where: Range(starts[where].offset, ends[where].offset) for where in self.partitions}
            poll = self.history.begin_poll(client.name)
            async for records in Consumer(cluster, ranges, limits=READ_LIMITS).batches():
                self.history.polled(poll, [_polled(record) for record in records])
                poll = self.history.begin_poll(client.name)
            self.history.polled(poll, [])
        finally:
            cluster.close()
        self.history.caught_up(read)


def _polled(record: ConsumedRecord) -> Polled:
    assert record.offset != NO_OFFSET
    return Polled(TopicPartition(record.topic, record.partition), record.offset, record.value or b"")
