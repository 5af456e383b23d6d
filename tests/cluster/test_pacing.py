"""Between processes of one machine nothing is paced, and everywhere else what the system does is left alone."""

import asyncio
import socket
from types import SimpleNamespace
from typing import Any, cast

import pytest

from hightide.runtime import network, pacing
from hightide.runtime.connections import SocketConnection
from hightide.runtime.network import SocketNetwork
from tests.cluster.socket_pairs import Frames, turn

pytestmark = pytest.mark.skipif(not hasattr(socket, "TCP_CONGESTION"), reason="this system lets nobody choose")


def algorithm(sock: socket.socket) -> bytes:
    return sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0")


@pytest.fixture
def usual() -> bytes:
    """What the system gives a socket that nobody touched."""
    with socket.socket() as untouched:
        return algorithm(untouched)


def accepted_by(loop: asyncio.AbstractEventLoop) -> tuple[SocketConnection, socket.socket]:
    """A connection as a listener of ours accepts it, and its peer."""
    connections: list[SocketConnection] = []

    def accept(connection: object) -> Frames:
        connections.append(cast("SocketConnection", connection))
        return Frames()

    listener = SocketNetwork(loop).listen("127.0.0.1", 0, accept)
    listener.start()
    peer = socket.create_connection((listener.host, listener.port))
    while not connections:
        turn(loop)
    listener.close()
    return connections[0], peer


def test_a_listening_socket_is_unpaced_before_anybody_connects(loop: asyncio.AbstractEventLoop) -> None:
    """Those it accepts were connected by the kernel, long before we could choose: they have what it has."""
    listener = SocketNetwork(loop).listen("127.0.0.1", 0, lambda _: None)
    with socket.create_connection((listener.host, listener.port)):
        listener._socket.setblocking(True)
        accepted, _ = listener._socket.accept()
        assert algorithm(accepted) == b"reno"
        accepted.close()
    listener.close()


class ConnectingNetwork(SocketNetwork):
    """Notes what a socket has when it begins to connect."""

    had = b""

    async def _connected(self, sock: socket.socket, address: Any) -> None:
        self.had = algorithm(sock)
        await super()._connected(sock, address)


def test_whoever_connects_is_unpaced_before_it_does(loop: asyncio.AbstractEventLoop) -> None:
    network = ConnectingNetwork(loop)
    with socket.create_server(("127.0.0.1", 0)) as listening:
        host, port = listening.getsockname()
        connection = loop.run_until_complete(network.connect(host, port, lambda _: Frames()))
        assert network.had == b"reno"
        connection.close()
    turn(loop)


@pytest.mark.parametrize("is_here", [True, False])
def test_a_peer_elsewhere_is_sent_to_as_the_system_does(
    loop: asyncio.AbstractEventLoop, usual: bytes, is_here: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(network, "is_on_this_machine", lambda _: is_here)
    connection, peer = accepted_by(loop)
    assert algorithm(connection._socket) == (b"reno" if is_here else usual)
    connection.close()
    peer.close()
    turn(loop)


def between(peer: str, own: str) -> socket.socket:
    named = SimpleNamespace(getpeername=lambda: (peer, 1), getsockname=lambda: (own, 2))
    return cast("socket.socket", named)


@pytest.mark.parametrize(
    ("peer", "own", "here"),
    [
        ("127.0.0.1", "127.0.0.1", True),
        ("127.0.0.7", "127.0.0.1", True),
        ("::1", "::1", True),
        ("192.0.2.4", "192.0.2.4", True),
        ("192.0.2.5", "192.0.2.4", False),
        ("2001:db8::2", "2001:db8::1", False),
    ],
)
def test_who_is_on_this_machine(peer: str, own: str, here: bool) -> None:
    assert pacing.is_on_this_machine(between(peer, own)) == here


def test_a_peer_that_left_is_no_trouble() -> None:
    sock = socket.socket()
    assert pacing.is_on_this_machine(sock), "never connected: nobody is elsewhere"
    sock.close()
    pacing.send_as_usual(sock, b"cubic")
    assert pacing.send_unpaced(sock) == b""


def test_where_nobody_may_choose_nothing_is_chosen(monkeypatch: pytest.MonkeyPatch, usual: bytes) -> None:
    monkeypatch.setattr(pacing, "_OPTION", None)
    with socket.socket() as sock:
        assert pacing.send_unpaced(sock) == b""
        assert algorithm(sock) == usual
