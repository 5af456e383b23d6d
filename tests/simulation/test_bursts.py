"""Requests that came together: their records are written at once, and each is answered as if it had come alone."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from errno import ENOSPC
from functools import partial
from typing import Any

import pytest

from hightide import limits
from hightide.client.admin import Admin, NewTopic
from hightide.client.cluster import Cluster
from hightide.client.producer import Producer
from hightide.errors import ErrorCode
from hightide.node.bursts import FEW_REQUESTS
from hightide.node.partitions import Partition
from hightide.replication.events import FollowershipGranted
from hightide.replication.leases import Lease
from hightide.sim.disk import SimulatedDisk
from hightide.sim.topology import host_of, node_settings
from hightide.sim.world import World
from hightide.wire.compression import Codec
from hightide.wire.headers import RequestHeader
from hightide.wire.message import ApiMessage
from hightide.wire.messages.produce import ProduceResponse
from tests.memory_world import MemoryBroker, MemoryConnection
from tests.requests import batch, create_topic, fetch, produce, produce_batch, values_of
from tests.simulation.visits import visit

VERSION = 9


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(test)


def framed(message: ApiMessage, version: int = VERSION) -> bytes:
    out = bytearray()
    RequestHeader(message.api_key, version, 1, "test").write(out)
    return bytes(out) + message.encode(version)


class SeveralClients:
    """A broker with a topic of two partitions, and clients that send at the same time."""

    def __init__(self, count: int, durability: str = "fsync") -> None:
        self.disk = SimulatedDisk()
        self.broker = MemoryBroker(self.disk, hightide_durability=durability)
        self._count = count

    async def __aenter__(self) -> "SeveralClients":
        await self.broker.start()
        await self.broker.call(create_topic("t", partitions=2), 7)
        await self.broker.call(produce("t", [b"first"]), VERSION)  # a segment with something in it
        self.clients = [self.broker.world.network.client() for _ in range(self._count)]
        self.node = self.broker.node
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.node.stop()

    def send(self, frames: Sequence[bytes | None]) -> None:
        """Each client its frame, in one turn."""
        burst = self.broker.world.network.burst
        burst.begin()
        for client, frame in zip(self.clients, frames, strict=True):
            if frame is not None:
                client.give(frame)
        burst.end()
        burst.wake()

    async def answers(self) -> list[tuple[int, int]]:
        """Error and offset of each."""
        return [await self.answer(client) for client in self.clients]

    async def answer(self, client: MemoryConnection) -> tuple[int, int]:
        reply = await asyncio.wait_for(client.replies.get(), 10)
        assert reply is not None, "the broker closed the connection"
        (partition,) = ProduceResponse.decode(reply[5:], VERSION).responses[0].partition_responses
        return partition.error_code, partition.base_offset

    async def stored(self, partition: int = 0) -> list[bytes | None]:
        return values_of(await self.broker.call(fetch("t", partition=partition), 12))


def test_they_are_written_at_once_and_answered_one_by_one() -> None:
    async def scenario() -> None:
        async with SeveralClients(20) as several:
            writes: list[int] = []
            write = several.disk.write

            def noted(content: Any, path: str, data: bytes, position: int) -> None:
                if path.endswith(".log") and "/t-0/" in path:
                    writes.append(len(data))
                write(content, path, data, position)

            several.disk.write = noted  # type: ignore[method-assign]
            several.send([framed(produce("t", [b"%d" % number])) for number in range(20)])
            assert len(writes) == 1
            assert await several.answers() == [(0, 1 + number) for number in range(20)]
            assert await several.stored() == [b"first", *(b"%d" % number for number in range(20))]
            assert several.node.stats.produced_together == 20

    run(scenario())


def test_each_partition_gets_its_own() -> None:
    async def scenario() -> None:
        async with SeveralClients(6) as several:
            several.send([framed(produce("t", [b"%d" % number], partition=number % 2)) for number in range(6)])
            assert await several.answers() == [(0, 1), (0, 0), (0, 2), (0, 1), (0, 3), (0, 2)]
            assert await several.stored() == [b"first", b"0", b"2", b"4"]
            assert await several.stored(1) == [b"1", b"3", b"5"]

    run(scenario())


def test_what_is_refused_keeps_nobody_else_from_being_written() -> None:
    async def scenario() -> None:
        async with SeveralClients(7) as several:
            damaged = bytearray(batch([b"damaged"]))
            damaged[-1] ^= 1
            several.send([
                framed(produce("t", [b"0"])),
                framed(produce_batch("t", bytes(damaged))),
                framed(produce("t", [b"2"])),
                framed(produce("t", [b"nowhere"], partition=9)),
                framed(produce_batch("t", b"")),
                framed(produce_batch("t", batch([b"in a transaction"], producer_id=5, producer_epoch=0,
                                                  base_sequence=0, transactional=True))),
                framed(produce("t", [b"6"])),
            ])  # fmt: skip
            assert await several.answers() == [
                (0, 1),
                (ErrorCode.CORRUPT_MESSAGE, -1),
                (0, 2),
                (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1),
                (ErrorCode.INVALID_RECORD, -1),
                (ErrorCode.INVALID_TXN_STATE, -1),
                (0, 3),
            ]
            assert await several.stored() == [b"first", b"0", b"2", b"6"]

    run(scenario())


def test_old_requests_may_not_bring_zstd() -> None:
    """KIP-110: whoever speaks Produce 6 could not read it."""

    async def scenario() -> None:
        async with SeveralClients(2) as several:
            several.send([framed(produce("t", [b"x" * 100], codec=Codec.ZSTD), 6) for _ in range(2)])
            for client in several.clients:
                reply = await asyncio.wait_for(client.replies.get(), 10)
                assert reply is not None
                (partition,) = ProduceResponse.decode(reply[4:], 6).responses[0].partition_responses
                assert partition.error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE
            assert await several.stored() == [b"first"]

    run(scenario())


def test_a_producer_that_sends_over_two_connections_is_asked_for_its_order() -> None:
    """K2, R11: the second batch of a producer follows on the first, and a duplicate is known for one."""

    async def scenario() -> None:
        async with SeveralClients(5) as several:

            def sent(sequence: int) -> bytes:
                records = batch([b"%d" % sequence], producer_id=5, producer_epoch=0, base_sequence=sequence)
                return framed(produce_batch("t", records))

            several.send([sent(0), sent(1), sent(1), sent(7), sent(2)])
            assert await several.answers() == [
                (0, 1), (0, 2), (0, 2), (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1), (0, 3),
            ]  # fmt: skip
            assert await several.stored() == [b"first", b"0", b"1", b"2"]

    run(scenario())


def _offline(partition: Partition) -> None:
    partition.go_offline("its bytes are bad")


def _leads_no_more(partition: Partition) -> None:
    partition._handle(FollowershipGranted(2, partition.replica.leader_epoch + 1, 9, (1, 2), (1, 2)))
    partition.replica.has_enough_in_sync = True


def _read_only(partition: Partition) -> None:
    partition._world.space.write_failed(OSError(ENOSPC, "full"))


def _lease_ended(partition: Partition) -> None:
    partition.replica.lease = Lease(until=0.0)


def _lease_ended_but_all_are_heard(partition: Partition) -> None:
    partition.replica.lease = Lease(until=0.0, strict=False)


@pytest.mark.parametrize(
    ("happened", "all_code", "one_code"),
    [
        (_offline, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
        (_leads_no_more, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (_read_only, ErrorCode.KAFKA_STORAGE_ERROR, ErrorCode.KAFKA_STORAGE_ERROR),
        (_lease_ended, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_LEADER_OR_FOLLOWER),
        (_lease_ended_but_all_are_heard, ErrorCode.NONE, ErrorCode.NOT_LEADER_OR_FOLLOWER),
    ],
)
def test_a_partition_that_may_not_be_written_refuses_all_of_them(
    happened: Callable[[Partition], None], all_code: ErrorCode, one_code: ErrorCode
) -> None:
    """R10, R16, R17: what one is asked all are asked, and acks=1 may be refused where acks=all is not."""

    async def scenario() -> None:
        async with SeveralClients(4) as several:
            partition = several.node.partition("t", 0)
            happened(partition)
            several.send([framed(produce("t", [b"x"], acks=acks)) for acks in (-1, 1, 1, -1)])
            assert [code for code, _ in await several.answers()] == [all_code, one_code, one_code, all_code]
            assert partition.log.end == (1 if all_code else 3)

    run(scenario())


def test_too_few_replicas_refuse_those_that_ask_for_all() -> None:
    async def scenario() -> None:
        async with SeveralClients(4) as several:
            several.node.partition("t", 0).replica.has_enough_in_sync = False
            several.send([framed(produce("t", [b"x"], acks=acks)) for acks in (-1, 1, 1, -1)])
            few = (ErrorCode.NOT_ENOUGH_REPLICAS, -1)
            assert await several.answers() == [few, (0, 1), (0, 2), few]

    run(scenario())


def test_what_only_coordinators_write_is_refused() -> None:
    async def scenario() -> None:
        async with SeveralClients(3) as several:
            several.node.partition("t", 0).is_internal = True
            several.send([framed(produce("t", [b"x"])) for _ in range(3)])
            assert await several.answers() == [(ErrorCode.INVALID_TOPIC_EXCEPTION, -1)] * 3

    run(scenario())


def test_what_follows_a_refused_batch_on_its_connection_is_refused_though_others_are_not() -> None:
    """K2: the producer sends both again, in order."""

    async def scenario() -> None:
        async with SeveralClients(2) as several:

            def sent(sequence: int) -> bytes:
                records = batch([b"%d" % sequence], producer_id=5, producer_epoch=0, base_sequence=sequence)
                return framed(produce_batch("t", records))

            partition = several.node.partition("t", 0)
            lease = partition.replica.lease
            _lease_ended(partition)
            several.send([sent(0), None])
            assert await several.answer(several.clients[0]) == (ErrorCode.NOT_LEADER_OR_FOLLOWER, -1)
            partition.replica.lease = lease
            several.send([sent(1), framed(produce("t", [b"other"]))])
            assert await several.answers() == [(ErrorCode.NOT_LEADER_OR_FOLLOWER, -1), (0, 1)]
            several.send([sent(0), framed(produce("t", [b"other"]))])
            assert [code for code, _ in await several.answers()] == [0, 0]

    run(scenario())


def test_a_full_disk_refuses_those_that_do_not_fit() -> None:
    async def scenario() -> None:
        async with SeveralClients(4) as several:
            size = len(batch([b"0" * 50]))
            several.disk.capacity = several.disk.used_bytes() + 2 * size + size // 2
            several.send([framed(produce("t", [b"%d" % number * 50])) for number in range(4)])
            answers = await several.answers()
            assert answers[:2] == [(0, 1), (0, 2)]
            assert [code for code, _ in answers[2:]] == [ErrorCode.KAFKA_STORAGE_ERROR] * 2
            several.disk.capacity = None
            assert await several.stored() == [b"first", b"0" * 50, b"1" * 50]

    run(scenario())


def test_after_a_bug_nobody_is_told_anything_and_the_broker_goes_on() -> None:
    async def scenario() -> None:
        async with SeveralClients(3) as several:
            write = several.disk.write

            def broken(content: Any, path: str, data: bytes, position: int) -> None:
                raise RuntimeError("a bug")

            several.disk.write = broken  # type: ignore[method-assign]
            several.send([framed(produce("t", [b"%d" % number])) for number in range(3)])
            assert [await client.replies.get() for client in several.clients] == [None] * 3, "hung up"
            assert several.node.stats.unexpected_errors == 3
            several.disk.write = write  # type: ignore[method-assign]
            answer = await several.broker.call(produce("t", [b"next"]), VERSION)
            assert answer.responses[0].partition_responses[0].base_offset == 1
            assert await several.stored() == [b"first", b"next"]

    run(scenario())


def test_nobody_is_acknowledged_before_the_sync() -> None:
    """R4 and R11: all of them wait for it."""

    async def scenario() -> None:
        async with SeveralClients(4) as several:
            several.broker.world.syncer.held = True
            several.send([framed(produce("t", [b"%d" % number])) for number in range(4)])
            await asyncio.sleep(0.05)
            assert all(client.replies.empty() for client in several.clients)
            several.broker.world.syncer.release()
            assert await several.answers() == [(0, 1 + number) for number in range(4)]

    run(scenario())


def test_a_request_behind_one_that_was_put_aside_sees_what_it_brought() -> None:
    """One connection, in one turn: its requests are handled in their order."""

    async def scenario() -> None:
        async with SeveralClients(2) as several:
            several.broker.world.syncer.held = True
            burst = several.broker.world.network.burst
            one, other = several.clients
            burst.begin()
            other.give(framed(produce("t", [b"other"])))
            for number in range(3):
                one.give(framed(produce("t", [b"%d" % number])))
            log = several.node.partition("t", 0).log
            assert log.end == 1 + 3, "the last one is put aside"
            burst.end()
            several.broker.world.syncer.release()
            assert await several.answer(other) == (0, 1)
            assert [await several.answer(one) for _ in range(3)] == [(0, 2), (0, 3), (0, 4)]

    run(scenario())


def test_no_more_are_put_aside_than_allowed() -> None:
    async def scenario() -> None:
        async with SeveralClients(limits.BURST_REQUESTS_MAX + 1) as several:
            log = several.node.partition("t", 0).log
            burst = several.broker.world.network.burst
            burst.begin()
            for client in several.clients[:-1]:
                client.give(framed(produce("t", [b"x"])))
            assert log.end == 1
            several.clients[-1].give(framed(produce("t", [b"x"])))
            assert log.end == 1 + limits.BURST_REQUESTS_MAX
            burst.end()
            assert len({offset for _, offset in await several.answers()}) == len(several.clients)
            assert not any(session.has_put_aside for session in several.node._sessions)

    run(scenario())


def test_whoever_wants_no_answer_gets_none() -> None:
    async def scenario() -> None:
        async with SeveralClients(3) as several:
            several.send([framed(produce("t", [b"%d" % number], acks=number - 1)) for number in range(3)])
            assert await several.answer(several.clients[0]) == (0, 1)
            assert await several.answer(several.clients[2]) == (0, 3)
            assert several.clients[1].replies.empty()
            assert await several.stored() == [b"first", b"0", b"1", b"2"]

    run(scenario())


async def turns_until_consumed(count: int) -> int:
    """How long a consumer waits that was there before, when so many records come together."""
    async with SeveralClients(count, "replicated") as several:
        consumer = several.broker.world.network.client()
        consumer.give(framed(fetch("t", 1, max_wait_ms=30_000), 12))
        several.send([framed(produce("t", [b"x"])) for _ in range(count)])
        turns = 0
        while consumer.replies.empty():
            turns += 1
            await asyncio.sleep(0)
        return turns


def test_whoever_waits_for_records_gets_them_two_turns_earlier_where_no_more_will_come() -> None:
    async def scenario() -> None:
        assert await turns_until_consumed(1) == 0
        assert await turns_until_consumed(FEW_REQUESTS) == 0
        assert await turns_until_consumed(FEW_REQUESTS + 1) == 2

    run(scenario())


def test_followers_hear_of_single_records_without_waiting_for_more() -> None:
    """Left to themselves they ask again after `replica.fetch.wait.max.ms`, half a second."""
    world = World(1)
    nodes = {number: world.add_node(host_of(number), node_settings(number, 3)) for number in (1, 2, 3)}
    took: list[float] = []

    async def send(cluster: Cluster) -> None:
        producer = Producer(cluster)
        await (await producer.send("t", b"finds the leader", partition=0))
        started = asyncio.get_running_loop().time()
        for _ in range(10):
            await (await producer.send("t", b"x", partition=0))
        took.append(asyncio.get_running_loop().time() - started)
        await producer.close()

    async def tell() -> None:
        for process in nodes.values():
            process.start()
        assert await world.until(lambda: all(process.is_up for process in nodes.values()))
        topic = NewTopic("t", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "3"})
        await visit(world.add_client("admin"), 3, lambda cluster: Admin(cluster).create_topics([topic]))
        await visit(world.add_client("client"), 3, send)

    world.run(tell())
    world.close()
    assert took[0] < 1.0


@pytest.mark.covers("N1")
@pytest.mark.parametrize("seed", range(4))
def test_busy_brokers_that_lose_power_lose_nothing(seed: int) -> None:
    """Whole nodes that look at their connections now and then, many producers of single records, and a dead leader."""
    world = World(seed)
    world.network.busy_seconds = 0.01
    nodes = {number: world.add_node(host_of(number), node_settings(number, 3)) for number in (1, 2, 3)}
    acknowledged: dict[int, bytes] = {}
    together: list[int] = []

    async def send(cluster: Cluster, name: str) -> None:
        producer = Producer(cluster)
        for number in range(60):
            value = f"{name}/{number}".encode()
            acknowledged[(await (await producer.send("t", value, partition=0))).offset] = value
        await producer.close()

    async def tell() -> None:
        for process in nodes.values():
            process.start()
        assert await world.until(lambda: all(process.is_up for process in nodes.values()))
        topic = NewTopic("t", assignments={0: [1, 2, 3]}, configs={"min.insync.replicas": "2"})
        await visit(world.add_client("admin"), 3, lambda cluster: Admin(cluster).create_topics([topic]))
        clients = [world.add_client(f"client-{number}") for number in range(12)]
        sending = [asyncio.ensure_future(visit(client, 3, partial(send, name=client.name))) for client in clients]
        assert await world.until(lambda: len(acknowledged) > 200, 60)
        first = nodes[1].node
        assert first is not None
        together.append(first.stats.produced_together)
        nodes[1].lose_power()
        await asyncio.gather(*sending)
        nodes[1].start()

        def all_have_all() -> bool:
            return all(process.node is not None and process.is_up for process in nodes.values()) and (
                len({process.node.partition("t", 0).log.end for process in nodes.values() if process.node}) == 1
            )

        assert await world.until(all_have_all, 60)
        for process in nodes.values():
            assert process.node is not None
            log = process.node.partition("t", 0).log
            read = log.read(0, 1 << 20, upper_bound=log.end, min_one_batch=True)
            assert read is not None
            data = read.slice.read()
            read.slice.release()
            assert all(value in data for value in acknowledged.values())

    world.run(tell())
    world.close()
    assert [str(problem) for problem in world.trace.problems] == []
    assert len(acknowledged) == 12 * 60, "each has an offset of its own"
    assert together[0] > 20
