"""A connection of the runtime whose peer is a plain socket, and a loop that is turned by hand."""

import asyncio
import socket

from hightide.runtime.connections import SocketConnection
from hightide.runtime.network import SocketNetwork
from hightide.wire.framing import Frame

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
