"""One connection: versions, correlation, limits, time-outs, loss."""

import asyncio

import pytest

from hightide.client.connections import Connection
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.limits import CLIENT_REQUESTS_IN_FLIGHT_MAX
from hightide.wire.messages.api_versions import ApiVersionsRequest
from hightide.wire.messages.metadata import MetadataRequest, MetadataResponse
from tests.unit.client.memory_cluster import MemoryCluster

METADATA = MetadataRequest.api_key


async def connect(cluster: MemoryCluster, port: int = 9001) -> Connection:
    return await Connection.open(cluster, cluster.clock, "broker", port, client_id="test", timeout=5.0)


async def ask(cluster: MemoryCluster) -> MetadataResponse:
    return await (await connect(cluster)).call(MetadataRequest(topics=[]), MetadataResponse)


def test_versions_are_negotiated_once() -> None:
    cluster = MemoryCluster()
    cluster.versions[METADATA] = (0, 5)

    async def work() -> tuple[int, int]:
        connection = await connect(cluster)
        await connection.call(MetadataRequest(topics=[]), MetadataResponse)
        await connection.call(MetadataRequest(topics=[]), MetadataResponse)
        return connection.version_of(METADATA), connection.version_of(METADATA, newest=3)

    assert cluster.run(work()) == (5, 3)
    assert len(cluster.requests(ApiVersionsRequest)) == 1


@pytest.mark.parametrize("theirs", [None, (14, 20)])
def test_no_common_version(theirs: tuple[int, int] | None) -> None:
    cluster = MemoryCluster()
    del cluster.versions[METADATA]
    if theirs:
        cluster.versions[METADATA] = theirs
    with pytest.raises(ApiError, match="does not speak a version of Metadata"):
        cluster.run(ask(cluster))


def test_a_broker_that_does_not_know_our_version_of_api_versions() -> None:
    cluster = MemoryCluster()
    handle, versions = cluster.handle, list[int]()

    def old_broker(broker: int, frame: bytes) -> bytes | None:
        if int.from_bytes(frame[:2], "big") == ApiVersionsRequest.api_key:
            versions.append(int.from_bytes(frame[2:4], "big"))
            if versions[-1] > 0:
                return frame[4:8] + int(ErrorCode.UNSUPPORTED_VERSION).to_bytes(2, "big") + bytes(4)
        return handle(broker, frame)

    cluster.handle = old_broker  # type: ignore[method-assign]
    assert cluster.run(ask(cluster)).cluster_id == "memory"
    assert versions == [4, 0]


def test_answers_find_their_questions_in_any_order() -> None:
    cluster = MemoryCluster(topics={"a": 1, "b": 2})
    cluster.silent.add(MetadataRequest)

    async def work() -> list[str | None]:
        connection = await connect(cluster)
        requests = [MetadataRequest(topics=None), MetadataRequest(topics=[])]
        asked = [asyncio.ensure_future(connection.call(request, MetadataResponse)) for request in requests]
        await asyncio.sleep(0)
        for correlation, cluster_id in ((3, "second"), (2, "first")):
            body = MetadataResponse(cluster_id=cluster_id).encode(connection.version_of(METADATA))
            connection.received(correlation.to_bytes(4, "big") + b"\0" + body)
        return [answer.cluster_id for answer in await asyncio.gather(*asked)]

    assert cluster.run(work()) == ["first", "second"]


def test_requests_in_flight_are_bounded() -> None:
    cluster = MemoryCluster()
    cluster.silent.add(MetadataRequest)

    async def work() -> int:
        connection = await connect(cluster)
        asked = [
            asyncio.ensure_future(connection.call(MetadataRequest(topics=[]), MetadataResponse)) for _ in range(20)
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        under_way = len(cluster.requests(MetadataRequest))
        for task in asked:
            task.cancel()
        connection.close()
        return under_way

    assert cluster.run(work()) == CLIENT_REQUESTS_IN_FLIGHT_MAX


def test_silence_is_a_time_out_and_ends_the_connection() -> None:
    cluster = MemoryCluster()
    cluster.silent.add(MetadataRequest)

    async def work() -> Connection:
        connection = await connect(cluster)
        with pytest.raises(ApiError, match="did not answer Metadata in time") as caught:
            await connection.call(MetadataRequest(topics=[]), MetadataResponse)
        assert caught.value.code is ErrorCode.REQUEST_TIMED_OUT
        with pytest.raises(ApiError, match="did not answer Metadata in time"):
            await connection.call(MetadataRequest(topics=[]), MetadataResponse)
        return connection

    cluster.run(work())
    assert not cluster.connections[0].open


def test_a_lost_connection_fails_everybody_who_waits() -> None:
    cluster = MemoryCluster()
    cluster.silent.add(MetadataRequest)

    async def work() -> list[ErrorCode]:
        connection = await connect(cluster)
        asked = [asyncio.ensure_future(connection.call(MetadataRequest(topics=[]), MetadataResponse)) for _ in range(3)]
        await asyncio.sleep(0)
        cluster.connections[0].close()
        errors = await asyncio.gather(*asked, return_exceptions=True)
        return [error.code for error in errors if isinstance(error, ApiError)]

    assert cluster.run(work()) == [ErrorCode.NETWORK_EXCEPTION] * 3


def test_nobody_listens() -> None:
    cluster = MemoryCluster()
    with pytest.raises(ApiError, match="broker:9007: connection refused"):
        cluster.run(connect(cluster, 9007))


def test_a_broker_that_never_accepts() -> None:
    cluster = MemoryCluster()

    async def hang(*_: object) -> None:
        await asyncio.get_running_loop().create_future()

    cluster.connect = hang  # type: ignore[assignment]
    with pytest.raises(ApiError, match="broker:9001 does not answer"):
        cluster.run(connect(cluster))


def test_garbage_is_a_protocol_error() -> None:
    cluster = MemoryCluster()
    handle = cluster.handle

    def garbled(broker: int, frame: bytes) -> bytes | None:
        answer = handle(broker, frame)
        return answer if frame[:2] != METADATA.to_bytes(2, "big") or answer is None else answer[:9]

    cluster.handle = garbled  # type: ignore[method-assign]
    with pytest.raises(ProtocolError, match="broker:9001 sent what is no Metadata answer"):
        cluster.run(ask(cluster))
