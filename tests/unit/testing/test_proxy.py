"""The proxy between nodes: a cut direction holds bytes and ends, a heal delivers them, a reset breaks at once."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Iterator

import pytest

from hightide.testing.places import BROKERS, BROKERS_PROXY, Claim, Place
from hightide.testing.proxy import Proxy

DEADLINE_SECONDS = 10.0
LARGE = bytes(range(256)) * 200_000  # more than the proxy and a kernel's buffers hold, which grow to some 40 MB


@pytest.fixture
def places() -> Iterator[list[Place]]:
    claim = Claim(2)
    yield claim.places
    claim.release()


class Pair:
    """Node 2 listens behind the proxy; node 1 connects."""

    def __init__(self, places: list[Place]) -> None:
        self.loop = asyncio.get_running_loop()
        self.one, self.two = places
        self.proxy = Proxy(self.loop, places)
        self.proxy.open(2)
        self.listener = socket.create_server((self.two.host, self.two.port + BROKERS))
        self.listener.setblocking(False)
        self.sockets: list[socket.socket] = []

    async def connect(self) -> socket.socket:
        sock = socket.socket()
        sock.setblocking(False)
        sock.bind((self.one.host, 0))
        self.sockets.append(sock)
        await self.loop.sock_connect(sock, (self.two.host, self.two.port + BROKERS_PROXY))
        return sock

    async def accept(self) -> socket.socket:
        sock, _ = await asyncio.wait_for(self.loop.sock_accept(self.listener), DEADLINE_SECONDS)
        self.sockets.append(sock)
        return sock

    async def receive(self, sock: socket.socket, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            part = await asyncio.wait_for(self.loop.sock_recv(sock, count - len(data)), DEADLINE_SECONDS)
            assert part, "it ended"
            data += part
        return bytes(data)

    async def close(self) -> None:
        for sock in [*self.sockets, self.listener]:
            sock.close()
        await self.proxy.close_all()


def run(places: list[Place], story: Callable[[Pair], Coroutine[None, None, None]]) -> None:
    async def main() -> None:
        pair = Pair(places)
        try:
            await story(pair)
        finally:
            await pair.close()

    asyncio.run(main())


def test_bytes_pass_both_ways_and_large_amounts_arrive(places: list[Place]) -> None:
    async def story(pair: Pair) -> None:
        near = await pair.connect()
        far = await pair.accept()
        sending = asyncio.ensure_future(pair.loop.sock_sendall(near, LARGE))
        assert await pair.receive(far, len(LARGE)) == LARGE
        await sending
        await pair.loop.sock_sendall(far, b"answer")
        assert await pair.receive(near, 6) == b"answer"
        near.close()
        assert await asyncio.wait_for(pair.loop.sock_recv(far, 1), DEADLINE_SECONDS) == b""

    run(places, story)


def test_a_cut_direction_is_silent_until_it_is_healed(places: list[Place]) -> None:
    async def story(pair: Pair) -> None:
        near = await pair.connect()
        far = await pair.accept()
        pair.proxy.cut([(1, 2)], reset=False)
        await pair.loop.sock_sendall(near, b"held")
        await pair.loop.sock_sendall(far, b"heard")  # the other direction is open
        assert await pair.receive(near, 5) == b"heard"
        near.close()
        receiving = asyncio.ensure_future(pair.loop.sock_recv(far, 100))
        done, _ = await asyncio.wait({receiving}, timeout=0.05)
        assert not done
        pair.proxy.heal()
        assert await asyncio.wait_for(receiving, DEADLINE_SECONDS) == b"held"
        assert await asyncio.wait_for(pair.loop.sock_recv(far, 1), DEADLINE_SECONDS) == b""

    run(places, story)


def test_more_than_the_proxy_holds_waits_at_the_sender(places: list[Place]) -> None:
    async def story(pair: Pair) -> None:
        near = await pair.connect()
        far = await pair.accept()
        pair.proxy.cut([(1, 2)], reset=False)
        sending = asyncio.ensure_future(pair.loop.sock_sendall(near, LARGE))
        done, _ = await asyncio.wait({sending}, timeout=0.2)
        assert not done
        pair.proxy.heal()
        assert await pair.receive(far, len(LARGE)) == LARGE
        await sending

    run(places, story)


def test_a_connection_made_in_a_partition_waits_for_the_heal(places: list[Place]) -> None:
    async def story(pair: Pair) -> None:
        pair.proxy.cut([(2, 1)], reset=False)  # nothing comes back: no connection comes about
        near = await pair.connect()
        await pair.loop.sock_sendall(near, b"hello")
        accepting = asyncio.ensure_future(pair.accept())
        done, _ = await asyncio.wait({accepting}, timeout=0.05)
        assert not done
        pair.proxy.heal()
        assert await pair.receive(await accepting, 5) == b"hello"

    run(places, story)


def test_a_reset_breaks_connections_and_refuses_new_ones(places: list[Place]) -> None:
    async def story(pair: Pair) -> None:
        near = await pair.connect()
        far = await pair.accept()
        pair.proxy.cut([(1, 2)], reset=True)
        for sock in (near, far, await pair.connect()):
            with pytest.raises(ConnectionResetError):
                await asyncio.wait_for(pair.loop.sock_recv(sock, 1), DEADLINE_SECONDS)
        pair.proxy.heal()
        await pair.connect()
        await pair.accept()

    run(places, story)


def test_nobody_listens_for_a_node_that_is_down(places: list[Place]) -> None:
    async def story(pair: Pair) -> None:
        near = await pair.connect()
        pair.listener.close()  # the node is gone, the proxy does not know yet
        with pytest.raises(ConnectionResetError):
            await asyncio.wait_for(pair.loop.sock_recv(near, 1), DEADLINE_SECONDS)
        pair.proxy.close(2)
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()

    run(places, story)


def test_strangers_are_never_cut(places: list[Place]) -> None:
    async def story(pair: Pair) -> None:
        pair.proxy.cut([(1, 2), (2, 1)], reset=False)
        with socket.socket() as stranger:
            stranger.setblocking(False)
            await pair.loop.sock_connect(stranger, (pair.two.host, pair.two.port + BROKERS_PROXY))
            await pair.loop.sock_sendall(stranger, b"hello")
            assert await pair.receive(await pair.accept(), 5) == b"hello"

    run(places, story)
