"""One connection of the runtime on a pair of sockets, driven event by event into orders that a loop seldom makes."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable, Iterator
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
from hightide.runtime.connections import (
    FEW_CONNECTIONS,
    PATIENT_CONNECTIONS_MAX,
    WAITING_CONNECTIONS_MAX,
    SocketConnection,
    Turn,
)
from hightide.runtime.network import SocketNetwork
from hightide.wire.framing import KEPT_BYTES_MAX, Frame

FRAME = (996).to_bytes(4) + bytes(996)


class Frames:
    """A receiver that notes what it gets, and may pause the connection at one of them."""

    def __init__(self) -> None:
        self.sizes: list[int] = []
        self.connection: SocketConnection | None = None
        self.pause_at = -1
        self.is_closed = False

    def frame(self, data: Frame) -> None:
        self.sizes.append(len(data))
        if len(self.sizes) == self.pause_at and self.connection is not None:
            self.connection.pause()

    def closed(self) -> None:
        self.is_closed = True


@pytest.fixture
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    loop = asyncio.new_event_loop()
    yield loop
    loop.close()


def turn(loop: asyncio.AbstractEventLoop, times: int = 1) -> None:
    for _ in range(times):
        loop.call_soon(loop.stop)
        loop.run_forever()


def connected(
    loop: asyncio.AbstractEventLoop, peer_buffer: int = 4 << 20, network: SocketNetwork | None = None
) -> tuple[SocketConnection, Frames, socket.socket]:
    listening = socket.create_server(("127.0.0.1", 0))
    peer = socket.socket()
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, peer_buffer)
    peer.connect(listening.getsockname())
    peer.setblocking(False)
    ours, _ = listening.accept()
    listening.close()
    connection = (network or SocketNetwork(loop)).wrap(ours, "peer:1")
    frames = Frames()
    frames.connection = connection
    connection.start(frames)
    return connection, frames, peer


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


@pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="this system lets nobody choose")
def test_nothing_is_paced_on_its_way_to_another_process_of_this_machine(loop: asyncio.AbstractEventLoop) -> None:
    connection, _, peer = connected(loop)
    chosen = connection._socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16)
    assert chosen.rstrip(b"\0") == b"reno"
    connection.close()
    peer.close()
    turn(loop)


@pytest.mark.skipif(not hasattr(os, "sched_yield"), reason="this system has no word for it")
@pytest.mark.parametrize("count", [1, PATIENT_CONNECTIONS_MAX, PATIENT_CONNECTIONS_MAX + 1])
def test_whoever_is_answered_alone_may_run_first(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    peers, sent = [socket.socketpair() for _ in range(count)], list[list[bytes]]()

    def arrived(theirs: socket.socket) -> bytes:
        theirs.setblocking(False)
        return theirs.recv(100)

    own = threading.get_ident()

    def give_way() -> None:
        if threading.get_ident() == own:  # brokers that other tests left running in this process do so too
            sent.append([arrived(theirs) for _, theirs in peers])

    monkeypatch.setattr(os, "sched_yield", give_way)
    answers = Turn(loop)
    connections = [SocketConnection(answers, ours, "peer:1", FRAME_BYTES_MAX) for ours, _ in peers]
    for connection in connections:
        connection.send([b"answer"])
    turn(loop)
    assert sent == ([[b"answer"] * count] if count <= PATIENT_CONNECTIONS_MAX else [])
    for connection, (_, theirs) in zip(connections, peers, strict=True):
        connection.close()
        theirs.close()
    turn(loop)


class NotedBurst:
    """Notes when frames came together, among what their receivers note."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.on_wake: Callable[[], None] | None = None

    def begin(self) -> None:
        self.notes.append("begin")

    def settle(self) -> None:
        self.notes.append("settle")

    def end(self) -> None:
        self.notes.append("end")

    def wake(self) -> None:
        self.notes.append("wake")
        if self.on_wake is not None:
            self.on_wake()


class NotedFrames(Frames):
    def __init__(self, name: str, burst: NotedBurst) -> None:
        super().__init__()
        self._name = name
        self._burst = burst
        self.closes: SocketConnection | None = None
        self.answers: SocketConnection | None = None
        self.has_a_bug = False

    def frame(self, data: Frame) -> None:
        if self.has_a_bug:
            raise RuntimeError("a bug")
        self._burst.notes.append(f"{self._name}: {bytes(data[2:]).decode()}")
        if self.answers is not None:
            self.answers.send([b"answer"])
        if self.closes is not None:
            self.closes.close()


def request(api_key: int, name: str) -> bytes:
    return (2 + len(name)).to_bytes(4) + api_key.to_bytes(2) + name.encode()


class Several:
    """Connections of one network that tells of frames that come together; closed at the end.

    It is busy: the turn before brought requests of more than a few others.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, count: int) -> None:
        network = SocketNetwork(loop)
        self.burst = NotedBurst()
        network.announce(self.burst)
        self.connections: list[SocketConnection] = []
        self.receivers = [NotedFrames(str(number), self.burst) for number in range(count)]
        self.peers: list[socket.socket] = []
        self._loop = loop
        for receiver in self.receivers:
            connection, _, peer = connected(loop, network=network)
            connection.start(receiver)
            self.connections.append(connection)
            self.peers.append(peer)
        others = [connected(loop, network=network) for _ in range(FEW_CONNECTIONS + 1)]
        for other, _, peer in others:
            peer.send(FRAME)
            other._readable()
        turn(loop)
        for other, _, peer in others:
            other.close()
            peer.close()
        turn(loop)
        self.burst.notes.clear()

    def __enter__(self) -> "Several":
        return self

    def __exit__(self, *_: object) -> None:
        for connection, peer in zip(self.connections, self.peers, strict=True):
            connection.close()
            peer.close()
        turn(self._loop)

    def send(self, number: int, data: bytes) -> None:
        """Let it arrive, and the loop see it."""
        self.peers[number].send(data)
        self.connections[number]._readable()

    @property
    def frames(self) -> list[str]:
        return [note for note in self.burst.notes if ":" in note]


def test_small_requests_are_handed_over_together_those_with_records_first(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, 3) as several:
        several.send(0, request(1, "fetch"))
        several.send(1, request(0, "one") + request(0, "two"))
        several.send(2, request(0, "three"))
        assert several.burst.notes == [], "the turn has not ended"
        turn(loop)
        assert several.burst.notes == ["begin", "1: one", "1: two", "2: three", "settle", "0: fetch", "end", "wake"]


def test_what_comes_later_in_the_turn_stays_behind(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, 1) as several:
        for name in ("one", "two", "three"):
            several.send(0, request(0, name))
        turn(loop)
        assert several.frames == ["0: one", "0: two", "0: three"]


def test_nothing_is_handed_over_for_a_connection_that_another_one_closed(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, 2) as several:
        several.receivers[0].closes = several.connections[1]
        several.send(0, request(0, "x"))
        several.send(1, request(0, "x"))
        turn(loop)
        assert several.burst.notes == ["begin", "0: x", "settle", "end", "wake"]


def test_part_of_a_request_waits_for_its_rest(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, 1) as several:
        whole = request(0, "one") + request(0, "two")
        for piece in (whole[:3], whole[3:12], whole[12:]):
            several.send(0, piece)
            turn(loop)
        assert several.frames == ["0: one", "0: two"]


def test_many_connections_do_not_wait_for_all_of_them(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, WAITING_CONNECTIONS_MAX + 1) as several:
        for number in range(WAITING_CONNECTIONS_MAX + 1):
            several.send(number, request(0, "x"))
        assert len(several.frames) == WAITING_CONNECTIONS_MAX
        turn(loop)
        assert len(several.frames) == WAITING_CONNECTIONS_MAX + 1


def test_a_bug_costs_nobody_else_a_request(loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture) -> None:
    with Several(loop, 3) as several:
        several.receivers[0].has_a_bug = True
        for number in range(3):
            several.send(number, request(0, "x"))
        turn(loop, 2)
        assert several.frames == ["1: x", "2: x"]
        assert several.burst.notes[-2:] == ["end", "wake"]
        assert several.receivers[0].is_closed
        assert "a bug" in caplog.text


def test_where_few_come_the_first_is_served_and_answered_at_once(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, 2) as several:
        for receiver, connection in zip(several.receivers, several.connections, strict=True):
            receiver.answers = connection
        several.send(0, request(0, "makes it quiet"))
        turn(loop)
        assert several.peers[0].recv(100) == b"answer"
        for _ in range(2):  # turns: the second is like the first
            several.burst.notes.clear()
            several.send(0, request(0, "first"))
            assert several.frames == ["0: first"]
            assert several.peers[0].recv(100) == b"answer"
            several.send(1, request(0, "second"))
            assert several.frames == ["0: first"], "it may not be the last of its turn"
            turn(loop)
            assert several.burst.notes == [
                "begin", "0: first", "settle", "end", "begin", "1: second", "settle", "end", "wake",
            ]  # fmt: skip
            assert several.peers[1].recv(100) == b"answer"


def test_many_in_one_turn_end_the_quiet(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, FEW_CONNECTIONS + 1) as several:
        several.send(0, request(0, "makes it quiet"))
        turn(loop)
        several.burst.notes.clear()
        for number in range(FEW_CONNECTIONS + 1):
            several.send(number, request(0, "x"))
        assert several.frames == ["0: x"]
        turn(loop)
        several.send(0, request(0, "y"))
        assert "0: y" not in several.frames
        turn(loop)
        assert several.frames[-1] == "0: y"


def test_whoever_is_woken_is_answered_in_the_same_turn_and_after_the_others(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, 2) as several:
        arrived: list[bytes] = []

        def wake() -> None:
            arrived.append(several.peers[0].recv(100))
            several.connections[1].send([b"records"])

        several.burst.on_wake = wake
        several.receivers[0].answers = several.connections[0]
        several.send(0, request(0, "x"))
        turn(loop)
        assert arrived == [b"answer"]
        assert several.peers[1].recv(100) == b"records"


def test_a_bug_while_others_are_woken_stops_no_later_turn(loop: asyncio.AbstractEventLoop) -> None:
    with Several(loop, 1) as several:
        several.receivers[0].answers = several.connections[0]
        several.burst.on_wake = lambda: 1 // 0  # type: ignore[assignment]
        errors: list[object] = []
        loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        for name in ("x", "y"):
            several.send(0, request(0, name))
            turn(loop)
            assert several.peers[0].recv(100) == b"answer"
        assert len(errors) == 2


def test_requests_and_their_answers_are_one_turn(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A second end would make the loop look at its sockets once more for nothing."""
    with Several(loop, 2) as several:
        called: list[object] = []
        soon = loop.call_soon

        def noted(callback: Callable[..., object], *args: Any) -> asyncio.Handle:
            called.append(callback)
            return soon(callback, *args)

        monkeypatch.setattr(loop, "call_soon", noted)
        for receiver, connection in zip(several.receivers, several.connections, strict=True):
            receiver.answers = connection
        several.send(0, request(0, "x"))
        several.send(1, request(1, "x"))
        turn(loop, 2)
        assert [peer.recv(100) for peer in several.peers] == [b"answer"] * 2
        assert len([each for each in called if each != loop.stop]) == 1


def test_answers_of_brokers_are_handed_over_at_once(loop: asyncio.AbstractEventLoop) -> None:
    """They are no requests: records that a follower receives are not put aside."""
    with Several(loop, 1) as several:
        several.connections[0].gather()
        several.send(0, request(0, "answer"))
        assert several.burst.notes == ["0: answer"]


def test_nobody_is_given_way_to_who_got_no_answer(
    loop: asyncio.AbstractEventLoop, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request that waits for followers: they are to be told of it now."""
    own, gave_way = threading.get_ident(), list[int]()
    monkeypatch.setattr(os, "sched_yield", lambda: gave_way.append(threading.get_ident()), raising=False)
    with Several(loop, 1) as several:
        several.send(0, request(0, "x"))
        turn(loop)
        assert several.frames == ["0: x"]
    assert own not in gave_way


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
