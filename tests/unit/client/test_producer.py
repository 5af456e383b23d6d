"""Producing: partitions, batches, order, sequences, retries."""

import asyncio

import pytest

from hightide.client.outbox import Delivered
from hightide.client.partitioner import partition_for_key
from hightide.client.producer import Producer
from hightide.errors import ApiError, ErrorCode
from hightide.limits import CLIENT_BUFFER_BYTES_MAX
from hightide.types import TopicPartition
from hightide.wire.compression import Codec
from hightide.wire.messages.init_producer_id import InitProducerIdRequest
from hightide.wire.messages.produce import ProduceRequest
from hightide.wire.records import BatchHeader, iterate_headers, iterate_records
from tests.unit.client.memory_cluster import MemoryCluster

T0 = TopicPartition("t", 0)


def headers(memory: MemoryCluster, where: TopicPartition = T0) -> list[BatchHeader]:
    return [header for batch in memory.logs[where] for _, header in iterate_headers(batch)]


def values(memory: MemoryCluster, where: TopicPartition = T0) -> list[bytes | None]:
    return [
        record.value
        for batch in memory.logs[where]
        for position, header in iterate_headers(batch)
        for record in iterate_records(batch, position, header)
    ]


async def send_all(producer: Producer, *contents: bytes, partition: int | None = 0) -> list[Delivered]:
    futures = [await producer.send("t", content, partition=partition) for content in contents]
    await producer.close()
    return [future.result() for future in futures]


def test_records_sent_together_travel_in_one_batch() -> None:
    memory = MemoryCluster(topics={"t": 1})
    delivered = memory.run(send_all(Producer(memory.client()), b"a", b"b", b"c"))
    assert [each.offset for each in delivered] == [0, 1, 2]
    assert [header.record_count for header in headers(memory)] == [3]


def test_a_batch_is_full_at_its_limit() -> None:
    memory = MemoryCluster(topics={"t": 1})
    producer = Producer(memory.client(), batch_bytes=1000)
    memory.run(send_all(producer, *[bytes(300)] * 7))
    assert [header.record_count for header in headers(memory)] == [3, 3, 1]
    assert all(header.size <= 1100 for header in headers(memory))


@pytest.mark.covers("N11")
def test_sequences_are_contiguous_per_partition() -> None:
    memory = MemoryCluster(topics={"t": 2})

    async def work() -> None:
        producer = Producer(memory.client(), batch_bytes=100)
        for number in range(12):
            await producer.send("t", bytes(40), partition=number % 2)
        await producer.close()

    memory.run(work())
    for index in (0, 1):
        found = headers(memory, TopicPartition("t", index))
        assert [header.base_sequence for header in found] == [0, 1, 2, 3, 4, 5]
        assert {header.producer_id for header in found} == {7000}
    assert len(memory.requests(InitProducerIdRequest)) == 1


@pytest.mark.covers("N11")
def test_a_batch_is_sent_again_byte_for_byte() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.fail(ProduceRequest, ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NOT_ENOUGH_REPLICAS)
    delivered = memory.run(send_all(Producer(memory.client()), b"a", b"b"))
    assert [each.offset for each in delivered] == [0, 1]
    sent = {
        bytes(request.topic_data[0].partition_data[0].records or b"") for request in memory.requests(ProduceRequest)
    }
    assert len(memory.requests(ProduceRequest)) == 3
    assert len(sent) == 1


@pytest.mark.covers("N10")
def test_order_survives_retries() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.fail(ProduceRequest, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 3)
    contents = [b"%d" % number for number in range(50)]
    memory.run(send_all(Producer(memory.client(), batch_bytes=200), *contents))
    assert values(memory) == contents


def test_a_batch_that_was_kept_already_counts_as_sent() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.fail(ProduceRequest, ErrorCode.DUPLICATE_SEQUENCE_NUMBER)
    assert [each.offset for each in memory.run(send_all(Producer(memory.client()), b"a"))] == [-1]


@pytest.mark.parametrize("code", [ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID])
def test_a_lost_sequence_begins_a_new_identity(code: ErrorCode) -> None:
    memory = MemoryCluster(topics={"t": 1})

    async def work() -> None:
        producer = Producer(memory.client())
        await (await producer.send("t", b"a"))
        memory.fail(ProduceRequest, code)
        with pytest.raises(ApiError, match=code.name):
            await (await producer.send("t", b"b"))
        await (await producer.send("t", b"c"))

    memory.run(work())
    found = headers(memory)
    assert [(header.producer_id, header.base_sequence) for header in found] == [(7000, 0), (7001, 0)]


def test_a_refused_batch_keeps_the_identity() -> None:
    memory = MemoryCluster(topics={"t": 1})

    async def work() -> None:
        producer = Producer(memory.client())
        memory.fail(ProduceRequest, ErrorCode.INVALID_RECORD)
        with pytest.raises(ApiError, match="INVALID_RECORD"):
            await (await producer.send("t", b"a"))
        await (await producer.send("t", b"b"))

    memory.run(work())
    assert [(header.producer_id, header.base_sequence) for header in headers(memory)] == [(7000, 0)]


def test_a_batch_that_is_too_large_is_halved() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.fail(ProduceRequest, ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.MESSAGE_TOO_LARGE)
    contents = [b"%d" % number for number in range(8)]
    delivered = memory.run(send_all(Producer(memory.client()), *contents))
    assert [header.record_count for header in headers(memory)] == [2, 2, 4]
    assert [header.base_sequence for header in headers(memory)] == [0, 2, 4]
    assert [each.offset for each in delivered] == list(range(8))
    assert values(memory) == contents


def test_one_record_that_is_too_large_fails_alone() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.fail(ProduceRequest, *[ErrorCode.MESSAGE_TOO_LARGE] * 2)

    async def work() -> list[object]:
        producer = Producer(memory.client())
        futures = [await producer.send("t", content) for content in (b"large", b"small")]
        return list(await asyncio.gather(*futures, return_exceptions=True))

    large, small = memory.run(work())
    assert isinstance(large, ApiError)
    assert large.code is ErrorCode.MESSAGE_TOO_LARGE
    assert isinstance(small, Delivered)


def test_an_error_that_lasts_ends_with_the_delivery_time() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.fail(ProduceRequest, *[ErrorCode.NOT_ENOUGH_REPLICAS] * 1000)
    before = memory.clock.now()
    with pytest.raises(ApiError, match="NOT_ENOUGH_REPLICAS"):
        memory.run(send_all(Producer(memory.client(), delivery_timeout=20.0), b"a"))
    assert 18.0 <= memory.clock.now() - before <= 20.0


def test_keys_choose_the_partition() -> None:
    memory = MemoryCluster(topics={"t": 5})
    keys = [b"key-%d" % number for number in range(40)]

    async def work() -> list[int]:
        producer = Producer(memory.client())
        futures = [await producer.send("t", b"", key=key) for key in keys]
        await producer.close()
        return [future.result().partition for future in futures]

    assert memory.run(work()) == [partition_for_key(key, 5) for key in keys]


def test_records_without_keys_fill_one_batch_after_the_other() -> None:
    memory = MemoryCluster(topics={"t": 3})
    producer = Producer(memory.client(), batch_bytes=200, sticky_start=1)
    delivered = memory.run(send_all(producer, *[bytes(100)] * 6, partition=None))
    assert [each.partition for each in delivered] == [1, 1, 2, 2, 0, 0]


@pytest.mark.parametrize("acks", [0, 1])
def test_fewer_acknowledgements_mean_no_identity(acks: int) -> None:
    memory = MemoryCluster(topics={"t": 1})
    delivered = memory.run(send_all(Producer(memory.client(), acks=acks, idempotent=False), b"a", b"b"))
    assert [each.offset for each in delivered] == ([-1, -1] if acks == 0 else [0, 1])
    assert memory.requests(ProduceRequest)[0].acks == acks
    assert not memory.requests(InitProducerIdRequest)
    assert headers(memory)[0].producer_id == -1


def test_an_idempotent_producer_waits_for_all() -> None:
    with pytest.raises(ValueError, match="acks=all"):
        Producer(MemoryCluster().client(), acks=1)


@pytest.mark.parametrize("codec", Codec)
def test_every_codec(codec: Codec) -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.run(send_all(Producer(memory.client(), codec=codec), b"x" * 1000))
    assert headers(memory)[0].codec is codec
    assert values(memory) == [b"x" * 1000]


def test_unknown_topics_and_partitions_are_said_by_send() -> None:
    memory = MemoryCluster(topics={"t": 1})

    async def work() -> None:
        producer = Producer(memory.client())
        with pytest.raises(ApiError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            await producer.send("missing", b"a")
        with pytest.raises(ApiError, match="not 3"):
            await producer.send("t", b"a", partition=3)

    memory.run(work())


def test_send_waits_while_too_much_is_buffered() -> None:
    memory = MemoryCluster(topics={"t": 1})
    block = bytes(CLIENT_BUFFER_BYTES_MAX // 4)

    async def work() -> tuple[bool, bool]:
        producer = Producer(memory.client(), codec=Codec.LZ4)
        memory.silent.add(InitProducerIdRequest)
        for _ in range(5):
            await producer.send("t", block)
        waiting = asyncio.ensure_future(producer.send("t", block))
        for _ in range(10):
            await asyncio.sleep(0)
        blocked = not waiting.done()
        memory.silent.clear()
        await (await waiting)
        return blocked, waiting.done()

    assert memory.run(work()) == (True, True)


def test_a_cancelled_close_gives_up_what_is_queued() -> None:
    memory = MemoryCluster(topics={"t": 1})
    memory.silent.add(ProduceRequest)

    async def work() -> bool:
        producer = Producer(memory.client())
        future = await producer.send("t", b"a")
        closing = asyncio.ensure_future(producer.close())
        for _ in range(20):
            await asyncio.sleep(0)
        closing.cancel()
        await asyncio.wait({closing})
        for _ in range(5):
            await asyncio.sleep(0)
        return future.cancelled()

    assert memory.run(work())
