"""The reference for small requests: the broker's own sockets, framing and event loop, and a receiver that does nothing.

Run as a program of its own (`python -m bench.echo_server ANSWER_FILE`); prints its port and serves until it is killed.
What a broker loses against it is what the broker itself does.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hightide.node.ports import Connection
from hightide.runtime.network import SocketNetwork
from hightide.wire.framing import Frame

NOTHING_TO_CHECK = -1  # the sender's ERROR_POSITION: what comes back says nothing


@dataclass(frozen=True)
class EchoServer:
    """One that runs."""

    port: int
    pid: int


@contextmanager
def echoing(answer: Path) -> Iterator[EchoServer]:
    """A process that answers everything with what is in that file."""
    command = [sys.executable, "-m", "bench.echo_server", str(answer)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout is not None
            yield EchoServer(int(server.stdout.readline()), server.pid)
        finally:
            server.kill()


class Echo:
    """`node.ports.Receiver` that answers every frame with the same bytes."""

    __slots__ = ("_answer", "_connection")

    def __init__(self, connection: Connection, answer: bytes) -> None:
        self._connection = connection
        self._answer = answer

    def frame(self, data: Frame) -> None:  # noqa: ARG002
        """Answer it."""
        self._connection.send((self._answer,))

    def closed(self) -> None:
        """Nothing to clean up."""


def new_loop() -> asyncio.AbstractEventLoop:
    """The one that brokers run on."""
    try:
        import uvloop
    except ImportError:
        return asyncio.new_event_loop()
    return uvloop.new_event_loop()


def main(answer: bytes) -> None:
    """Serve for ever."""
    loop = new_loop()
    listener = SocketNetwork(loop).listen("127.0.0.1", 0, lambda connection: Echo(connection, answer))
    listener.start()
    print(listener.port, flush=True)
    loop.run_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_bytes())
