"""What connections receive and answer in one turn of the loop: together where many come, at once where few do."""

import asyncio
import os
import socket
import threading
from collections.abc import Callable
from typing import Any

import pytest

from hightide.limits import FRAME_BYTES_MAX
from hightide.runtime.connections import (
    FEW_CONNECTIONS,
    PATIENT_CONNECTIONS_MAX,
    WAITING_CONNECTIONS_MAX,
    SocketConnection,
    Turn,
)
from hightide.runtime.network import SocketNetwork
from hightide.wire.framing import Frame
from tests.cluster.socket_pairs import FRAME, Frames, connected, turn


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
