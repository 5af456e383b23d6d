"""Connections on real sockets: order, limits, slow readers, idle ones, and a stop that answers what is in flight."""

import asyncio
import errno
import gc
import socket
import weakref
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest

from hightide import limits
from hightide.errors import ErrorCode
from hightide.runtime import connections, network
from hightide.wire.messages.api_versions import ApiVersionsRequest
from hightide.wire.messages.metadata import MetadataRequest
from tests.cluster.live_broker import Client, LiveBroker, until
from tests.requests import (
    BROKER,
    create_topic,
    fetch,
    produce,
    records_in,
    set_config,
    set_topic_config,
    values_of,
)

PRODUCE, FETCH, METADATA = 0, 1, 3
BIG = 700_000  # bytes of one record: nothing that a socket's buffers swallow a hundred of


def run(scenario: Coroutine[Any, Any, None]) -> None:
    asyncio.run(scenario)


async def produced(client: Client, value: bytes, **options: Any) -> Any:
    answer = await client.call(produce("t", [value], **options), 9)
    return answer.responses[0].partition_responses[0]


async def is_served(client: Client) -> bool:
    return bool((await client.call(MetadataRequest(topics=[]), 9)).brokers)


# ---------------------------------------------------------------------------------------------- order and waiting


@pytest.mark.covers("N10")
def test_pipelined_produces_are_answered_in_order(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client = await broker.connect()
            sent = b"".join(client.frame(produce("t", [b"%d" % number]), 9) for number in range(100))
            await client.send_bytes(sent)
            for number in range(100):
                answer = await client.receive(PRODUCE, 9)
                assert answer.responses[0].partition_responses[0].base_offset == number
            assert values_of(await client.call(fetch("t"), 12)) == [b"%d" % number for number in range(100)]

    run(scenario())


def test_requests_of_all_kinds_are_answered_in_order(tmp_path: Path) -> None:
    """Some wait for a sync, some for the controller, some for nothing: the client gets them as it asked."""

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client = await broker.connect()
            asked: list[tuple[Any, int]] = []
            for number in range(20):
                asked += [
                    (produce("t", [b"%d" % number]), 9),
                    (MetadataRequest(topics=[]), 9),
                    (fetch("t", number, max_wait_ms=5000), 12),
                    (create_topic(f"made-{number}"), 7),
                    (produce("t", [b"unsafe"], partition=9), 9),
                ]
            await client.send_bytes(b"".join(client.frame(request, version) for request, version in asked))
            for number, (request, version) in enumerate(asked, 1):
                answer = await client.receive(request.api_key, version, number)
                if request.api_key == FETCH:
                    assert values_of(answer) == [b"%d" % (number // 5)], (
                        "what was produced before it on this connection"
                    )

    run(scenario())


def test_parked_produces_stop_the_reading_and_are_all_answered(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client, other = await broker.connect(), await broker.connect()
            broker.syncer.held = True
            await client.send_bytes(b"".join(client.frame(produce("t", [bytes(1000)]), 9) for _ in range(200)))
            await until(lambda: broker.partition.log.end == limits.PARKED_PRODUCES_PER_CONNECTION)
            assert await is_served(other)
            assert broker.partition.log.end == limits.PARKED_PRODUCES_PER_CONNECTION
            broker.syncer.release()
            for number in range(200):
                answer = await client.receive(PRODUCE, 9)
                assert answer.responses[0].partition_responses[0].base_offset == number

    run(scenario())


def test_requests_behind_a_waiting_one_may_fill_the_buffer(tmp_path: Path) -> None:
    """A megabyte of whole requests has arrived when reading goes on: they are served before more is received."""

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client = await broker.connect()
            await produced(client, bytes(1_000_000))  # the buffer grows to its full size
            for turn in range(3):
                offset = broker.partition.log.end
                waiting = client.frame(fetch("t", offset, max_wait_ms=30_000), 12)
                requests = [client.frame(MetadataRequest(topics=[]), 9, padding=3000) for _ in range(700)]
                sending = asyncio.ensure_future(client.send_bytes(waiting + b"".join(requests)))
                await until(lambda: broker.node.parked_fetches)
                other = await broker.connect()
                assert (await produced(other, b"wake")).base_offset == 1 + turn
                assert values_of(await client.receive(FETCH, 12)) == [b"wake"]
                for _ in requests:
                    await client.receive(METADATA, 9)
                await sending
            assert broker.node.stats.unexpected_errors == 0

    run(scenario())


def test_a_long_poll_ends_with_its_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            for _ in range(10):
                client = await broker.connect()
                await client.send(fetch("t", max_wait_ms=300_000), 12)
            await until(lambda: len(broker.node.parked_fetches) == 10)
            for client in broker.clients[-10:]:
                client.close()
            await until(lambda: not broker.node.parked_fetches)
            await until(lambda: not broker.node.sessions)
            assert not broker.partition.fetch_waiters

    run(scenario())


def test_a_closed_connection_is_gone_without_the_collector(tmp_path: Path) -> None:
    """Clients that come and go by the thousand must not hold a receive buffer each until the collector comes by."""

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            clients = [await broker.connect() for _ in range(3)]
            for client in clients:
                assert await is_served(client)
            await clients[0].send(fetch("t", max_wait_ms=300_000), 12)
            await until(lambda: broker.node.parked_fetches)
            await clients[1].send_bytes(bytes([0, 0, 1, 0]))  # half a frame
            connections: list[Any] = [session.connection for session in broker.node.sessions]
            held = [weakref.ref(connection._socket) for connection in connections]
            connections.clear()
            assert len(held) == 3
            gc.disable()
            try:
                for client in clients:
                    client.close()
                await until(lambda: not broker.node.sessions)
                await asyncio.sleep(0)
                assert [reference() for reference in held] == [None] * 3
            finally:
                gc.enable()

    run(scenario())


# ---------------------------------------------------------------------------------------------- slow readers


@pytest.fixture
def quick_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "WRITE_DEADLINE_SECONDS", 0.2)


def congested(broker: LiveBroker) -> list[Any]:
    """The broker's ends of connections whose peer does not take what it asked for."""
    connections: list[Any] = [session.connection for session in broker.node.sessions]
    return [connection for connection in connections if connection._writing]


async def filled(broker: LiveBroker, count: int = 20) -> None:
    client = await broker.connect()
    for _ in range(count):
        assert (await produced(client, bytes(BIG))).error_code == 0
    client.close()


def test_a_reader_that_takes_nothing_is_disconnected(tmp_path: Path, quick_deadline: None) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            await filled(broker)
            slow, other = await broker.connect(receive_bytes=4096), await broker.connect()
            await until(lambda: len(broker.node.sessions) == 2)
            everything = fetch("t", max_bytes=1 << 28)
            everything.topics[0].partitions[0].partition_max_bytes = 1 << 28
            await slow.send(everything, 12)
            while len(broker.node.sessions) > 1:
                assert (await produced(other, b"undisturbed")).error_code == 0
            assert await is_served(other)
            assert broker.partition.log.segment_count == 1
            assert broker.partition.log._segments.active.pins == 0, "what was to be sent is let go"

    run(scenario())


def test_a_slow_reader_gets_everything_as_long_as_it_reads(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            await filled(broker, 5)
            slow = await broker.connect(receive_bytes=4096)
            everything = fetch("t", max_bytes=1 << 28)
            everything.topics[0].partitions[0].partition_max_bytes = 1 << 28
            answer = await slow.call(everything, 12)
            assert len(list(records_in(answer.responses[0].partitions[0].records))) == 5

    run(scenario())


def test_a_client_that_asks_and_never_reads_is_not_buffered_for(tmp_path: Path, quick_deadline: None) -> None:
    """Ten thousand fetches of megabytes and as many large answers from memory: none is made before one has left."""

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            await filled(broker, 3)
            await (await broker.connect()).call(create_topic("with-many-partitions", 200), 7)
            for request, version in ((fetch("t"), 12), (MetadataRequest(topics=None), 9)):
                greedy, other = await broker.connect(receive_bytes=4096), await broker.connect()
                frames = b"".join(greedy.frame(request, version) for _ in range(10_000))
                fetches = broker.node.stats.fetches
                sending = asyncio.ensure_future(greedy.send_bytes(frames))
                await until(lambda: congested(broker))
                (connection,) = congested(broker)
                while not connection._closed:
                    assert len(connection._out) <= 2 * connections.WAITING_PARTS_MAX
                    assert connection._buffered <= 2 * connections.WAITING_BYTES_MAX
                    assert (await produced(other, b"undisturbed")).error_code == 0
                assert broker.node.stats.fetches - fetches < 1000
                await asyncio.wait({sending})
                sending.exception()  # whether the kernel took everything before the end does not matter
                greedy.close()

    run(scenario())


def test_pipelined_answers_that_do_not_fit_the_socket_all_arrive(tmp_path: Path) -> None:
    """Requests that had to wait for their peer are taken up again, in order, by files and from memory alike."""

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            await filled(broker, 2)
            client = await broker.connect(receive_bytes=4096)
            asked = [
                (fetch("t", number % 2), 12) if number % 3 else (MetadataRequest(topics=None), 9)
                for number in range(100)
            ]
            frames = b"".join(client.frame(request, version) for request, version in asked)
            sending = asyncio.ensure_future(client.send_bytes(frames))
            for number, (request, version) in enumerate(asked):
                answer = await client.receive(request.api_key, version, number + 1)
                if isinstance(request, MetadataRequest):
                    assert answer.topics
                else:
                    (partition,) = answer.responses[0].partitions
                    assert next(len(record.value or b"") for record in records_in(partition.records)) == BIG
            await sending

    run(scenario())


def test_more_output_than_is_kept_for_one_connection_closes_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "OUTPUT_BUFFER_BYTES_MAX", 2_000)

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            other = await broker.connect()
            for number in range(40):
                assert (await other.call(create_topic(f"a-topic-with-a-long-name-{number}"), 7)).topics
            client = await broker.connect()
            await client.send(MetadataRequest(topics=None), 9)
            assert await client.is_closed()
            assert await is_served(other)

    run(scenario())


# ---------------------------------------------------------------------------------------------- limits on connections


def test_max_connections(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path, max_connections="3") as broker:
            await until(lambda: not broker.node.sessions)
            clients = [await broker.connect() for _ in range(3)]
            for client in clients:
                assert await is_served(client)
            assert await (await broker.connect()).is_closed()
            assert broker.node.stats.connections_refused == 1
            clients[0].close()
            await until(lambda: len(broker.node.sessions) == 2)
            assert await is_served(await broker.connect())
            answer = await clients[1].call(set_config(BROKER, "", "max.connections", "4"), 1)
            assert answer.responses[0].error_code == 0
            assert await is_served(await broker.connect())
            assert await (await broker.connect()).is_closed()

    run(scenario())


def test_max_connections_per_ip(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path, max_connections_per_ip="2") as broker:
            await until(lambda: not broker.node.sessions)
            here = [await broker.connect() for _ in range(2)]
            for client in here:
                assert await is_served(client)
            assert await (await broker.connect()).is_closed()
            elsewhere = socket.socket()
            elsewhere.setblocking(False)
            elsewhere.bind(("127.0.0.2", 0))
            place = broker.node.listeners[0]
            await asyncio.get_running_loop().sock_connect(elsewhere, (place.host, place.port))
            other = Client(elsewhere)
            assert await is_served(other), "another address has a count of its own"
            other.close()

    run(scenario())


def test_connections_leave_descriptors_for_files(tmp_path: Path) -> None:
    """Whatever max.connections says: half of what the process may open is for segments."""

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            await until(lambda: not broker.node.sessions)
            assert 0 < broker.world.network.accepted_max <= limits.CONNECTIONS_MAX
            broker.world.network.accepted_max = 2
            clients = [await broker.connect() for _ in range(2)]
            for client in clients:
                assert await is_served(client)
            assert await (await broker.connect()).is_closed()
            clients[0].close()
            await until(lambda: len(broker.node.sessions) == 1)
            assert await is_served(await broker.connect())
            assert broker.world.network.accepted == 2

    run(scenario())


def test_idle_connections_are_closed_and_waiting_ones_are_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path, connections_max_idle_ms="60000") as broker:
            idle, waiting, busy = [await broker.connect() for _ in range(3)]
            for client in (idle, waiting, busy):
                assert await is_served(client)
            await waiting.send(fetch("t", max_wait_ms=300_000), 12)
            await until(lambda: broker.node.parked_fetches)
            broker.node.housekeeping.close_idle()  # all three were used since the look before this one
            now = broker.node.clock.now
            monkeypatch.setattr(broker.node.clock, "now", lambda: now() + 61)
            assert await is_served(busy)
            broker.node.housekeeping.close_idle()
            assert await idle.is_closed()
            assert (await produced(busy, b"wake")).error_code == 0
            assert values_of(await waiting.receive(FETCH, 12)) == [b"wake"]

    run(scenario())


def test_a_frame_above_the_limit_closes_the_connection(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path, socket_request_max_bytes="10000") as broker:
            client, other = await broker.connect(), await broker.connect()
            assert (await produced(client, bytes(9000))).error_code == 0
            await client.send_bytes((10_001).to_bytes(4))
            assert await client.is_closed()
            assert await is_served(other)

    run(scenario())


def test_a_process_without_descriptors_does_not_spin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A listening socket stays readable while nothing can be accepted: the loop has better things to do."""
    monkeypatch.setattr(network, "ACCEPT_AGAIN_SECONDS", 0.05)

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            served = await broker.connect()
            assert await is_served(served)
            listener: Any = broker.node.listeners[0]
            real = listener._socket
            starved = StarvedSocket(real)
            listener._socket = starved
            client = await broker.connect()
            await until(lambda: starved.tries)
            for _ in range(200):
                assert await is_served(served)
            assert starved.tries < 50
            listener._socket = real
            assert await is_served(client), "accepted when there are descriptors again"

    run(scenario())


class StarvedSocket:
    """A listening socket of a process that has as many files open as it may."""

    def __init__(self, real: socket.socket) -> None:
        self._real = real
        self.tries = 0

    def fileno(self) -> int:
        return self._real.fileno()

    def accept(self) -> None:
        self.tries += 1
        raise OSError(errno.EMFILE, "Too many open files")


# ---------------------------------------------------------------------------------------------- stopping


def test_a_stop_answers_what_is_in_flight(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            writer, reader, idle = [await broker.connect() for _ in range(3)]
            assert await is_served(idle)
            await reader.send(fetch("t", max_wait_ms=300_000), 12)
            await until(lambda: broker.node.parked_fetches)
            broker.syncer.held = True
            for number in range(3):
                await writer.send(produce("t", [b"%d" % number]), 9)
            await until(lambda: broker.partition.log.end == 3)
            stopping = asyncio.ensure_future(broker.stop())
            assert values_of(await reader.receive(FETCH, 12)) == []
            for client in (reader, idle):
                assert await client.is_closed()
            broker.syncer.release()
            for number in range(3):
                answer = await writer.receive(PRODUCE, 9)
                result = answer.responses[0].partition_responses[0]
                assert (result.error_code, result.base_offset) == (0, number)
            assert await writer.is_closed()
            await stopping
        async with LiveBroker(tmp_path) as again:
            assert again.node.directory.clean, "nothing needs a scan after a clean stop"
            client = await again.connect()
            assert values_of(await client.call(fetch("t"), 12)) == [b"0", b"1", b"2"]

    run(scenario())


def test_a_stopping_broker_takes_no_new_requests(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client = await broker.connect()
            broker.syncer.held = True
            await client.send(produce("t", [b"in flight"]), 9)
            await until(lambda: broker.partition.log.end == 1)
            place = broker.node.listeners[0]
            stopping = asyncio.ensure_future(broker.stop())
            await asyncio.sleep(0)
            await client.send(produce("t", [b"too late"]), 9)
            with pytest.raises(ConnectionRefusedError):
                await Client.open(place.host, place.port)
            broker.syncer.release()
            answer = await client.receive(PRODUCE, 9)
            assert answer.responses[0].partition_responses[0].error_code == 0
            assert await client.is_closed()
            await stopping
        async with LiveBroker(tmp_path) as again:
            client = await again.connect()
            assert values_of(await client.call(fetch("t"), 12)) == [b"in flight"]

    run(scenario())


# ---------------------------------------------------------------------------------------------- listeners and settings


def test_each_listener_tells_its_own_address(tmp_path: Path) -> None:
    async def scenario() -> None:
        listeners = {
            "listeners": "INSIDE://127.0.0.1:0,OUTSIDE://127.0.0.1:0",
            "advertised_listeners": "INSIDE://127.0.0.1:0,OUTSIDE://broker.example.org:19092",
            "listener_security_protocol_map": "INSIDE:PLAINTEXT,OUTSIDE:PLAINTEXT",
        }
        async with LiveBroker(tmp_path, **listeners) as broker:
            inside, outside = await broker.connect(0), await broker.connect(1)
            (told_inside,) = (await inside.call(MetadataRequest(topics=[]), 9)).brokers
            (told_outside,) = (await outside.call(MetadataRequest(topics=[]), 9)).brokers
            assert (told_inside.host, told_inside.port) == ("127.0.0.1", broker.node.listeners[0].port)
            assert (told_outside.host, told_outside.port) == ("broker.example.org", 19092)

    run(scenario())


def test_message_max_bytes_takes_effect_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client = await broker.connect()

            async def change(request: Any) -> None:
                assert (await client.call(request, 1)).responses[0].error_code == 0

            assert (await produced(client, bytes(5000))).error_code == 0
            await change(set_config(BROKER, "", "message.max.bytes", "1000"))
            assert (await produced(client, bytes(5000))).error_code == ErrorCode.MESSAGE_TOO_LARGE
            await change(set_topic_config("t", "max.message.bytes", "10000"))
            assert (await produced(client, bytes(5000))).error_code == 0
            await change(set_config(BROKER, "1", "message.max.bytes", "20000"))
            assert (await produced(client, bytes(15000))).error_code == ErrorCode.MESSAGE_TOO_LARGE, "the topic's wins"

    run(scenario())


@pytest.mark.covers("N13")
@pytest.mark.parametrize("resource", ["topic", "broker"])
def test_durability_takes_effect_at_once(tmp_path: Path, resource: str) -> None:
    def setting(value: str) -> Any:
        name = "hightide.durability"
        return set_topic_config("t", name, value) if resource == "topic" else set_config(BROKER, "", name, value)

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client, other = await broker.connect(), await broker.connect()
            assert (await produced(client, b"synced")).error_code == 0
            await client.call(setting("replicated"), 1)
            broker.syncer.held = True
            assert (await produced(client, b"not synced")).error_code == 0
            assert values_of(await client.call(fetch("t"), 12)) == [b"synced", b"not synced"]
            broker.syncer.release()
            await client.call(setting("fsync"), 1)
            broker.syncer.held = True
            await client.send(produce("t", [b"waits"]), 9)
            await until(lambda: broker.partition.log.end == 3)
            assert await is_served(other)
            assert values_of(await other.call(fetch("t", 2), 12)) == []
            broker.syncer.release()
            assert (await client.receive(PRODUCE, 9)).responses[0].partition_responses[0].error_code == 0

    run(scenario())


def test_retention_takes_effect_at_once(tmp_path: Path) -> None:
    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client = await broker.connect()
            assert (await produced(client, b"old")).error_code == 0  # its timestamp is years ago
            await client.call(set_topic_config("t", "retention.ms", "-1"), 1)
            await broker.node.housekeeping.retain()
            assert values_of(await client.call(fetch("t"), 12)) == [b"old"]
            await client.call(set_topic_config("t", "retention.ms", "1000"), 1)
            await broker.node.housekeeping.retain()
            assert broker.partition.log.start == 1
            answer = await client.call(fetch("t"), 12)
            assert answer.responses[0].partitions[0].error_code == ErrorCode.OFFSET_OUT_OF_RANGE

    run(scenario())


def test_the_first_request_may_be_anything_served(tmp_path: Path) -> None:
    """No handshake is needed on a plain listener, and a request may arrive byte by byte."""

    async def scenario() -> None:
        async with LiveBroker(tmp_path) as broker:
            client = await broker.connect()
            request = client.frame(ApiVersionsRequest(client_software_name="a", client_software_version="1"), 3)
            for octet in request:
                await client.send_bytes(bytes([octet]))
            assert (await client.receive(18, 3)).error_code == 0

    run(scenario())
