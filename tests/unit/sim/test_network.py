"""Connections between simulated hosts keep TCP's laws, whatever is cut, killed, paused or unplugged."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from hightide import limits
from hightide.node.ports import Connection
from hightide.sim.chatter import Chatter
from hightide.sim.connections import WINDOW_BYTES
from hightide.sim.disk import SimulatedDisk
from hightide.storage.files import FileSlice
from hightide.wire.framing import Frame
from tests.unit.sim.worlds import SmallWorld

PORT = 9092


def frame(body: bytes) -> bytes:
    return len(body).to_bytes(4, "big") + body


class Peer:
    """One end, and what it heard; echoes if told to."""

    def __init__(self, connection: Connection, *, echoes: bool = False) -> None:
        self.connection = connection
        self.frames: list[bytes] = []
        self.closed_at: float | None = None
        self._echoes = echoes

    def frame(self, data: Frame) -> None:
        self.frames.append(bytes(data))
        if self._echoes:
            self.connection.send([frame(bytes(data))])

    def closed(self) -> None:
        assert self.closed_at is None, "told twice"
        self.closed_at = asyncio.get_running_loop().time()

    @property
    def is_closed(self) -> bool:
        return self.closed_at is not None


class Pair:
    """A server host that accepts everything, on a loop of its own, and a client."""

    def __init__(self, world: SmallWorld, *, echoes: bool = False) -> None:
        self.world = world
        self.server_loop = world.make_loop("server")
        self.accepted: list[Peer] = []
        self._echoes = echoes
        self.listener = world.network.listen(self.server_loop, "server", PORT, self._accept)

    def _accept(self, connection: Connection) -> Peer:
        peer = Peer(connection, echoes=self._echoes)
        self.accepted.append(peer)
        return peer

    async def connect(self) -> Peer:
        peers: list[Peer] = []

        def receive(connection: Connection) -> Peer:
            peers.append(Peer(connection))
            return peers[0]

        await self.world.host("client").connect("server", PORT, receive)
        return peers[0]

    async def connected(self) -> tuple[Peer, Peer]:
        self.listener.start()
        client = await self.connect()
        await asyncio.sleep(0.1)
        return client, self.accepted[-1]


Story = Callable[[Pair], Coroutine[Any, Any, None]]


def play(story: Story, *, echoes: bool = False, disorder: float = 1.0, seed: int = 0) -> None:
    world = SmallWorld(seed, disorder)
    world.loop.run_until_complete(story(Pair(world, echoes=echoes)))
    assert world.errors == []


@pytest.mark.parametrize("seed", range(5))
def test_each_direction_keeps_its_order(seed: int) -> None:
    async def story(pair: Pair) -> None:
        client, _ = await pair.connected()
        sent = [b"%d" % number * (1 + number % 7) for number in range(300)]
        pair.world.network.link("client", "server").delay_seconds = (0.0, 0.5)
        for body in sent:
            client.connection.send([frame(body)[:3], frame(body)[3:]])
            await asyncio.sleep(0.001)
        await asyncio.sleep(5)
        assert client.frames == sent

    play(story, echoes=True, seed=seed)


def test_whoever_connects_before_the_listener_accepts_waits() -> None:
    async def story(pair: Pair) -> None:
        client = await pair.connect()
        client.connection.send([frame(b"early")])
        await asyncio.sleep(1)
        assert pair.accepted == []
        pair.listener.start()
        await asyncio.sleep(1)
        assert pair.accepted[0].frames == [b"early"]

    play(story)


def test_nobody_listens() -> None:
    async def story(pair: Pair) -> None:
        pair.listener.close()
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()
        again = pair.world.network.listen(pair.server_loop, "server", PORT, lambda _: None)
        with pytest.raises(OSError, match="in use"):
            pair.world.network.listen(pair.server_loop, "server", PORT, lambda _: None)
        again.start()
        client = await pair.connect()
        await asyncio.sleep(1)
        assert client.is_closed, "refused by the process"

    play(story)


def test_a_cut_delays_and_loses_nothing() -> None:
    async def story(pair: Pair) -> None:
        network = pair.world.network
        client, server = await pair.connected()
        network.cut("client", "server")
        client.connection.send([frame(b"1")])
        server.connection.send([frame(b"the other way is open")])
        await asyncio.sleep(20)
        assert server.frames == []
        assert client.frames == [b"the other way is open"]
        client.connection.send([frame(b"2")])
        network.restore("client", "server")
        await asyncio.sleep(1)
        assert server.frames == [b"1", b"2"]
        assert not client.is_closed

    play(story)


def test_connecting_through_a_cut_waits_and_then_works_or_times_out() -> None:
    async def story(pair: Pair) -> None:
        network = pair.world.network
        pair.listener.start()
        network.cut("server", "client")
        attempt = asyncio.ensure_future(pair.connect())
        await asyncio.sleep(10)
        assert not attempt.done()
        network.heal()
        assert (await attempt).closed_at is None
        network.cut("client", "server")
        with pytest.raises(TimeoutError):
            await pair.connect()

    play(story)


def test_a_killed_process_closes_its_connections_and_refuses_new_ones() -> None:
    async def story(pair: Pair) -> None:
        client, _ = await pair.connected()
        pair.server_loop.die(lambda: None)
        pair.world.network.process_died("server")
        await asyncio.sleep(0.1)
        assert client.is_closed
        with pytest.raises(ConnectionRefusedError):
            await pair.connect()

    play(story)


def test_a_machine_without_power_says_nothing_until_it_is_up_and_asked() -> None:
    async def story(pair: Pair) -> None:
        network = pair.world.network
        client, server = await pair.connected()
        pair.server_loop.die(lambda: None)
        network.process_died("server", power_lost=True)
        client.connection.send([frame(b"anybody there?")])
        await asyncio.sleep(100)
        assert client.closed_at is None
        network.booted("server")
        await asyncio.sleep(1)
        assert server.frames == []
        assert client.is_closed, "the rebooted machine knows no such connection"

    play(story)


def test_a_paused_process_is_connected_to_by_its_kernel() -> None:
    async def story(pair: Pair) -> None:
        pair.listener.start()
        pair.server_loop.pause()
        client = await pair.connect()
        client.connection.send([frame(b"hello")])
        await asyncio.sleep(5)
        assert pair.accepted == []
        pair.server_loop.resume()
        await asyncio.sleep(1)
        assert client.frames == [b"hello"]

    play(story, echoes=True)


def test_a_reader_that_does_not_read_holds_its_sender_up_and_is_given_up() -> None:
    async def story(pair: Pair) -> None:
        client, server = await pair.connected()
        server.connection.pause()
        started = asyncio.get_running_loop().time()
        client.connection.send([frame(bytes(WINDOW_BYTES))] * 3)
        await asyncio.sleep(limits.WRITE_DEADLINE_SECONDS - 1)
        assert client.connection.is_sending
        assert not client.is_closed
        await asyncio.sleep(5)
        assert client.closed_at is not None
        assert client.closed_at - started == pytest.approx(limits.WRITE_DEADLINE_SECONDS, abs=1)

    play(story)


def test_what_a_slow_reader_left_goes_on_when_it_reads() -> None:
    async def story(pair: Pair) -> None:
        client, server = await pair.connected()
        server.connection.pause()
        client.connection.send([frame(bytes(WINDOW_BYTES))] * 3)
        await asyncio.sleep(5)
        assert server.frames == []
        server.connection.resume()
        await asyncio.sleep(5)
        assert [len(body) for body in server.frames] == [WINDOW_BYTES] * 3

    play(story)


def test_finish_sends_what_is_queued_and_close_does_not() -> None:
    async def story(pair: Pair) -> None:
        client, server = await pair.connected()
        client.connection.send([frame(bytes(WINDOW_BYTES)), frame(b"last")])
        client.connection.finish()
        await asyncio.sleep(5)
        assert server.frames[-1] == b"last"
        assert server.is_closed
        assert client.is_closed
        client, server = await pair.connected()
        client.connection.send([frame(bytes(WINDOW_BYTES)), frame(b"last")])
        client.connection.close()
        client.connection.close()
        client.connection.send([frame(b"too late")])
        await asyncio.sleep(5)
        assert b"last" not in server.frames
        assert server.is_closed

    play(story)


def test_slices_of_files_are_sent_and_released() -> None:
    async def story(pair: Pair) -> None:
        client, server = await pair.connected()
        disk = SimulatedDisk()
        file = disk.open("f", create=True)
        body = bytes(range(256)) * 2000
        file.write_at(body, 0)
        owner = Owner()
        client.connection.send([len(body).to_bytes(4, "big"), FileSlice(file, 0, len(body), owner)])
        client.connection.send([FileSlice(file, 0, 4, owner)])
        await asyncio.sleep(2)
        assert server.frames == [body]
        assert owner.pins == 0

    play(story)


class Owner:
    pins = 0

    def on_unpinned(self) -> None:
        """Nothing to close."""


def test_a_broken_connection_is_broken_for_both() -> None:
    async def story(pair: Pair) -> None:
        client, server = await pair.connected()
        assert pair.world.network.reset_connections("client", "server") == 1
        await asyncio.sleep(1)
        assert client.is_closed
        assert server.is_closed
        assert list(pair.world.network.connections()) == []

    play(story)


def test_a_cancelled_connect_leaves_nothing_open() -> None:
    async def story(pair: Pair) -> None:
        pair.listener.start()
        attempt = asyncio.ensure_future(pair.connect())
        await asyncio.sleep(0.0001)
        attempt.cancel()
        await asyncio.sleep(1)
        assert attempt.cancelled()
        assert all(peer.is_closed for peer in pair.accepted)
        assert list(pair.world.network.connections()) == []

    play(story)


def test_loss_is_delay() -> None:
    async def story(pair: Pair) -> None:
        client, _ = await pair.connected()
        pair.world.network.link("client", "server").loss = 0.3
        started = asyncio.get_running_loop().time()
        for number in range(50):
            client.connection.send([frame(b"%d" % number)])
        while len(client.frames) < 50:
            await asyncio.sleep(0.01)
        assert client.frames == [b"%d" % number for number in range(50)]
        assert asyncio.get_running_loop().time() - started > 0.1

    play(story, echoes=True)


def test_one_kind_of_message_is_held_and_all_behind_it() -> None:
    async def story(pair: Pair) -> None:
        client, server = await pair.connected()
        fetch, vote = (b"".join([key.to_bytes(2), bytes(10)]) for key in (1, 52))
        pair.world.network.link("client", "server").held_seconds[1] = 3.0
        client.connection.send([frame(vote)])
        await asyncio.sleep(0.1)
        client.connection.send([frame(fetch)])
        client.connection.send([frame(vote)])
        await asyncio.sleep(2.8)
        assert server.frames == [vote]
        await asyncio.sleep(0.3)
        assert server.frames == [vote, fetch, vote]

    play(story)


def test_who_talks_without_end_is_reported() -> None:
    async def story(pair: Pair) -> None:
        client, _ = await pair.connected()
        chatter = Chatter(pair.world.network, pair.world.trace)
        for pause, expected in ((0.02, 0), (0.001, 1)):
            for _ in range(int(1.2 / pause)):
                client.connection.send([frame(b"me again")])
                await asyncio.sleep(pause)
            chatter.look()
            assert len(pair.world.trace.problems) == expected
        assert pair.world.trace.problems[0].check == "I33"

    play(story)
