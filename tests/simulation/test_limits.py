"""Everything has a limit (I33), and meeting one hurts nobody else. Sockets have theirs in tests/cluster."""

import asyncio

import pytest

from hightide import limits
from hightide.errors import ErrorCode
from hightide.sim.disk import SimulatedDisk
from hightide.wire.messages.metadata import MetadataRequest, MetadataRequestTopic
from tests.memory_world import MemoryBroker
from tests.requests import batch, create_topic, fetch, produce, produce_batch, values_of


async def started() -> MemoryBroker:
    broker = await MemoryBroker(SimulatedDisk()).start()
    await broker.call(create_topic("t"), 7)
    return broker


async def settle() -> None:
    """Let everything happen that can happen without time passing or syncs ending."""
    for _ in range(200):
        await asyncio.sleep(0)


def written(broker: MemoryBroker) -> int:
    return broker.node.partition("t", 0).log.end


@pytest.mark.covers("N10")
def test_a_connection_parks_so_many_produces_and_is_read_on_when_they_are_answered() -> None:
    count = 2 * limits.PARKED_PRODUCES_PER_CONNECTION + 2

    async def scenario() -> None:
        broker = await started()
        broker.world.syncer.held = True
        sent = [broker.send(produce("t", [b"%d" % number]), 9) for number in range(count)]
        await settle()
        assert written(broker) == limits.PARKED_PRODUCES_PER_CONNECTION
        assert broker.connection.replies.empty()
        broker.world.syncer.release()
        answers = [await asyncio.wait_for(broker.connection.replies.get(), 10) for _ in sent]
        assert [int.from_bytes((answer or b"")[:4]) for answer in answers] == sent, "answers come in order"
        assert values_of(await broker.call(fetch("t"), 12)) == [b"%d" % number for number in range(count)]
        await broker.node.stop()

    asyncio.run(scenario())


def test_a_connection_parks_only_so_many_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "PARKED_PRODUCE_BYTES_PER_CONNECTION", 2500)

    async def scenario() -> None:
        broker = await started()
        broker.world.syncer.held = True
        for _ in range(5):
            broker.send(produce("t", [bytes(1000)]), 9)
        await settle()
        assert written(broker) == 3
        broker.world.syncer.release()
        for _ in range(5):
            assert (await broker.receive(0, 9)).responses[0].partition_responses[0].error_code == 0
        await broker.node.stop()

    asyncio.run(scenario())


def test_who_waits_for_less_is_told_first_and_a_bug_in_one_keeps_no_other_waiting() -> None:
    async def scenario() -> None:
        broker = await started()
        partition = broker.node.partition("t", 0)
        told: list[str] = []

        class Waiter:
            def __init__(self, name: str) -> None:
                self.name = name

            def committed(self, number: int) -> None:
                if self.name == "failing":
                    raise RuntimeError("a bug")
                told.append(self.name)

            def failed(self, number: int, code: ErrorCode) -> None:
                raise AssertionError(f"{self.name}: {code.name}")

        for offset, name in ((2, "second"), (3, "third"), (1, "failing"), (2, "second too"), (1, "first")):
            partition.wait_for(offset, Waiter(name), 0)
        partition.replica.high_watermark = 2
        with pytest.raises(RuntimeError, match="a bug"):
            partition._committed()
        assert told == []
        partition._committed()
        assert told == ["first", "second", "second too"]
        partition.replica.high_watermark = 3
        partition._committed()
        assert told == ["first", "second", "second too", "third"]
        partition.replica.high_watermark = 0
        await broker.node.stop()

    asyncio.run(scenario())


def test_a_waiting_fetch_stops_the_reading_of_its_connection_only() -> None:
    async def scenario() -> None:
        broker = await started()
        waiting = broker.connection
        broker.send(fetch("t", max_wait_ms=30_000), 12)
        broker.send(produce("t", [b"behind it"]), 9)
        await settle()
        assert written(broker) == 0
        broker.connection = broker.world.network.client()
        await broker.call(produce("t", [b"of another"]), 9)
        broker.connection = waiting
        assert values_of(await broker.receive(1, 12)) == [b"of another"]
        assert (await broker.receive(0, 9)).responses[0].partition_responses[0].base_offset == 1
        await broker.node.stop()

    asyncio.run(scenario())


def test_a_closed_connection_leaves_nothing_waiting() -> None:
    async def scenario() -> None:
        broker = await started()
        partition = broker.node.partition("t", 0)
        for _ in range(20):
            broker.connection = broker.world.network.client()
            broker.send(fetch("t", max_wait_ms=30_000), 12)
        await settle()
        assert len(broker.node.parked_fetches) == len(partition.fetch_waiters) == 20
        for session in broker.node.sessions:
            session.connection.close()
        await settle()
        assert not broker.node.parked_fetches
        assert not partition.fetch_waiters
        assert not broker.node.sessions
        await broker.node.stop()

    asyncio.run(scenario())


def test_fetch_sessions_run_out_and_fetches_go_on_without() -> None:
    async def scenario() -> None:
        broker = await MemoryBroker(SimulatedDisk(), max_incremental_fetch_session_cache_slots="3").start()
        await broker.call(create_topic("t"), 7)
        await broker.call(produce("t", [b"a"]), 9)
        given = []
        for _ in range(5):
            answer = await broker.call(fetch("t", session_epoch=0), 12)
            assert values_of(answer) == [b"a"]
            given.append(answer.session_id)
        assert all(given[:3])
        assert given[3:] == [0, 0]
        assert len(broker.node.fetch_sessions) == 3
        await broker.node.stop()

    asyncio.run(scenario())


def test_producers_of_a_partition_are_bounded_and_the_oldest_idle_one_goes() -> None:
    async def scenario() -> None:
        broker = await started()
        producers = broker.node.partition("t", 0).log.producers
        producers.producers_max = 10
        for producer_id in range(30):
            sent = batch([b"x"], producer_id=producer_id, producer_epoch=0, base_sequence=0)
            answer = (await broker.call(produce_batch("t", sent), 9)).responses[0].partition_responses[0]
            assert answer.error_code == 0
        assert len(producers) <= 10
        assert producers.get(29) is not None
        await broker.node.stop()

    asyncio.run(scenario())


def test_automatic_creation_is_bounded_and_everyone_gets_a_topic_in_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "TOPICS_CREATED_AT_ONCE_MAX", 2)

    async def scenario() -> None:
        broker = await started()
        names = [f"auto-{number}" for number in range(6)]
        request = MetadataRequest(
            topics=[MetadataRequestTopic(name=name) for name in names], allow_auto_topic_creation=True
        )
        rounds = 0
        while missing := [topic for topic in (await broker.call(request, 9)).topics if topic.error_code]:
            rounds += 1
            assert rounds < 100
            assert {topic.error_code for topic in missing} == {ErrorCode.LEADER_NOT_AVAILABLE}
            await broker.node.assignments.settled()
            await settle()
        assert rounds >= 3
        await broker.node.stop()

    asyncio.run(scenario())
