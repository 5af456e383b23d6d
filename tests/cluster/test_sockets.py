"""One connection of the runtime on a pair of sockets, driven event by event into orders that a loop seldom makes."""

import asyncio
import socket
from typing import Any

import pytest
import uvloop

from hightide.limits import (
    FRAME_BYTES_MAX,
    RECEIVE_BUFFER_BYTES_INITIAL,
    RECEIVE_BUFFER_BYTES_MAX,
    SMALL_FRAME_BYTES_MAX,
    SMALL_READS_MIN,
)
from hightide.runtime.connections import SocketConnection
from hightide.runtime.network import SocketNetwork
from hightide.wire.framing import KEPT_BYTES_MAX
from tests.cluster.socket_pairs import FRAME, Frames, connected, turn


def test_a_buffer_full_of_frames_is_emptied_before_more_is_received(loop: asyncio.AbstractEventLoop) -> None:
    """Reading goes on in the same turn in which the socket is readable again, and the buffer has no byte left."""
    connection, frames, peer = connected(loop)
    large = (RECEIVE_BUFFER_BYTES_MAX).to_bytes(4) + bytes(RECEIVE_BUFFER_BYTES_MAX)
    sent = 0
    while sent < len(large):  # the buffer grows to the most it keeps
        try:
            sent += peer.send(large[sent:])
        except BlockingIOError:
            turn(loop)
    turn(loop, 20)
    assert frames.sizes == [RECEIVE_BUFFER_BYTES_MAX]
    connection.pause()
    waiting = memoryview(FRAME * (2 * KEPT_BYTES_MAX // len(FRAME)))
    while waiting:
        try:
            waiting = waiting[peer.send(waiting) :]
        except BlockingIOError:
            break
    turn(loop, 5)
    assert frames.sizes == [RECEIVE_BUFFER_BYTES_MAX], "paused"
    assert connection._buffer.pending > RECEIVE_BUFFER_BYTES_MAX // 2
    connection.resume()
    connection._readable()  # the event that was due in the same turn
    while waiting:
        try:
            waiting = waiting[peer.send(waiting) :]
        except BlockingIOError:
            turn(loop)
    turn(loop, 50)
    assert len(frames.sizes) == 1 + 2 * KEPT_BYTES_MAX // len(FRAME)
    assert not frames.is_closed
    connection.close()
    peer.close()
    turn(loop)
    assert frames.is_closed


def test_a_pause_in_the_middle_keeps_what_came_behind_it(loop: asyncio.AbstractEventLoop) -> None:
    connection, frames, peer = connected(loop)
    frames.pause_at = 3
    peer.send(FRAME * 10)
    turn(loop, 5)
    assert len(frames.sizes) == 3
    connection.resume()
    turn(loop, 5)
    assert len(frames.sizes) == 10
    connection.close()
    peer.close()
    turn(loop)


@pytest.mark.parametrize("piece", [1, 3, 700, SMALL_FRAME_BYTES_MAX, 100_000])
def test_short_and_long_frames_in_turn_arrive_whole_and_in_order(loop: asyncio.AbstractEventLoop, piece: int) -> None:
    connection, frames, peer = connected(loop)
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    short = [number % 50 for number in range(SMALL_READS_MIN + 2)]
    sizes = [*short, 3 * SMALL_FRAME_BYTES_MAX, *short, SMALL_FRAME_BYTES_MAX - 4, SMALL_FRAME_BYTES_MAX, *short]
    frames.pause_at = 5
    stream = b"".join(size.to_bytes(4) + bytes(size) for size in sizes)
    for start in range(0, len(stream), piece):
        peer.send(stream[start : start + piece])
        turn(loop)
    turn(loop, 5)
    assert frames.sizes == sizes[:5], "paused"
    connection.resume()
    turn(loop, 60)
    assert frames.sizes == sizes
    for _ in range(SMALL_READS_MIN + 1):
        peer.send(FRAME)
        turn(loop, 2)
    assert connection._reads_small, "only short ones came"
    connection.close()
    peer.close()
    turn(loop)


@pytest.mark.parametrize("length", [-1, FRAME_BYTES_MAX + 1])
def test_a_length_that_is_not_allowed_closes_the_connection(loop: asyncio.AbstractEventLoop, length: int) -> None:
    _, frames, peer = connected(loop)
    peer.send(FRAME + length.to_bytes(4, signed=True))
    turn(loop, 5)
    assert frames.sizes == [996]
    assert frames.is_closed
    peer.close()


def test_a_peer_that_leaves_is_noticed_while_its_request_waits(loop: asyncio.AbstractEventLoop) -> None:
    connection, frames, peer = connected(loop)
    frames.pause_at = 1
    peer.send(FRAME)
    turn(loop, 5)
    assert len(frames.sizes) == 1
    peer.close()
    turn(loop, 5)
    assert frames.is_closed
    connection.close()


def gathering(loop: asyncio.AbstractEventLoop) -> tuple[SocketConnection, Frames, socket.socket]:
    """A connection that we opened, and its peer, a broker."""
    connection, frames, peer = connected(loop)
    connection.gather()
    peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    return connection, frames, peer


@pytest.mark.parametrize("size", [100_000, RECEIVE_BUFFER_BYTES_MAX, 3 * KEPT_BYTES_MAX])
@pytest.mark.parametrize("piece", [10_000, 300_000])
def test_a_long_frame_in_pieces_and_the_short_ones_around_it_arrive(
    loop: asyncio.AbstractEventLoop, size: int, piece: int
) -> None:
    connection, frames, peer = gathering(loop)
    stream = memoryview(FRAME + size.to_bytes(4) + bytes(size) + FRAME)
    while stream:
        try:
            stream = stream[peer.send(stream[:piece]) :]
        except BlockingIOError:
            pass
        turn(loop)
    turn(loop, 50)
    assert frames.sizes == [996, size, 996]
    peer.send(FRAME)
    turn(loop, 2)
    assert frames.sizes == [996, size, 996, 996], "nobody waits for more than there is"
    connection.close()
    peer.close()
    turn(loop)


def test_the_receiver_of_a_long_frame_is_not_woken_for_every_piece(loop: asyncio.AbstractEventLoop) -> None:
    connection, frames, peer = gathering(loop)
    head = (1_000_000).to_bytes(4) + bytes(50_000)
    peer.send(head)
    turn(loop, 3)
    received = connection._buffer.pending
    peer.send(bytes(10_000))
    turn(loop, 3)
    assert (connection._buffer.pending, received) == (SMALL_FRAME_BYTES_MAX,) * 2, "the kernel keeps the rest"
    rest = memoryview(bytes(1_000_000 - 60_000))
    while rest:
        rest = rest[peer.send(rest[:100_000]) :]
        turn(loop)
    turn(loop, 3)
    assert frames.sizes == [1_000_000]
    connection.close()
    peer.close()
    turn(loop)


def test_the_memory_of_a_long_frame_is_given_back_when_only_short_ones_follow(loop: asyncio.AbstractEventLoop) -> None:
    connection, frames, peer = gathering(loop)
    rest = memoryview((5 * KEPT_BYTES_MAX).to_bytes(4) + bytes(5 * KEPT_BYTES_MAX))
    while rest:
        try:
            rest = rest[peer.send(rest) :]
        except BlockingIOError:
            turn(loop)
    turn(loop, 20)
    assert frames.sizes == [5 * KEPT_BYTES_MAX]
    assert connection._buffer.capacity > KEPT_BYTES_MAX
    for _ in range(2 * SMALL_READS_MIN):
        peer.send(FRAME)
        turn(loop, 2)
    assert connection._buffer.capacity == RECEIVE_BUFFER_BYTES_INITIAL
    connection.close()
    peer.close()
    turn(loop)


def test_a_peer_that_leaves_in_the_middle_of_a_long_frame_is_noticed(loop: asyncio.AbstractEventLoop) -> None:
    connection, frames, peer = gathering(loop)
    peer.send((1_000_000).to_bytes(4) + bytes(50_000))
    turn(loop, 3)
    peer.close()
    turn(loop, 3)
    assert frames.is_closed
    connection.close()


def test_whoever_is_hung_up_on_reads_its_answers_though_it_still_sends(loop: asyncio.AbstractEventLoop) -> None:
    """A socket closed over unread bytes resets the connection, and answers that were not read yet are gone with it."""
    connection, frames, peer = connected(loop)
    answers = bytes(100_000)
    connection.pause()
    peer.send(FRAME * 50)
    connection.send([answers])
    connection.finish()
    turn(loop, 5)
    peer.send(FRAME * 50)
    turn(loop, 5)
    read = b""
    while piece := peer.recv(1 << 20):
        read += piece
        peer.send(FRAME)
    assert read == answers
    peer.close()
    turn(loop, 5)
    assert frames.is_closed
    assert frames.sizes == []


def test_whoever_does_not_hang_up_too_is_not_waited_for(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hightide.limits.FAREWELL_SECONDS", 0.0)
    connection, frames, peer = connected(loop)
    connection.finish()
    turn(loop, 5)
    assert frames.is_closed
    peer.close()


class LoopWithoutResolver(uvloop.Loop):
    """Fails whoever wants a name resolved."""

    async def getaddrinfo(self, *_: object, **__: object) -> list[Any]:
        raise AssertionError("the resolver was asked")


def test_an_address_is_connected_to_without_the_resolver() -> None:
    """Its threads can't be stopped: a loop that was closed meanwhile complained about their answer."""
    loop = LoopWithoutResolver()
    listening = socket.create_server(("127.0.0.1", 0))
    host, port = listening.getsockname()
    connection = loop.run_until_complete(SocketNetwork(loop).connect(host, port, lambda _: Frames()))
    connection.close()
    listening.close()
    turn(loop)
    loop.close()


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_connection_is_opened_or_refused(host: str) -> None:
    loop = uvloop.new_event_loop()
    network = SocketNetwork(loop)
    listening = socket.create_server(("127.0.0.1", 0))
    port = listening.getsockname()[1]
    connection = loop.run_until_complete(network.connect(host, port, lambda _: Frames()))
    accepted, _ = listening.accept()
    connection.send([FRAME])
    turn(loop)
    assert accepted.recv(len(FRAME)) == FRAME
    for sock in (accepted, listening):
        sock.close()
    with pytest.raises(ConnectionRefusedError):
        loop.run_until_complete(network.connect(host, port, lambda _: Frames()))
    connection.close()
    loop.run_until_complete(loop.shutdown_default_executor())
    loop.close()
