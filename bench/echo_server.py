"""The reference for small requests: the broker's own sockets, framing and event loop, and a receiver that does nothing.

Run as a program of its own (`python -m bench.echo_server ANSWER_FILE`); prints its port and serves until it is killed.
What a broker loses against it is what the broker itself does.
"""

import asyncio
import sys
from pathlib import Path

from hightide.node.ports import Connection
from hightide.runtime.network import SocketNetwork
from hightide.wire.framing import Frame


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


def main(answer: bytes) -> None:
    """Serve for ever."""
    try:
        import uvloop
    except ImportError:
        loop = asyncio.new_event_loop()
    else:
        loop = uvloop.new_event_loop()
    listener = SocketNetwork(loop).listen("127.0.0.1", 0, lambda connection: Echo(connection, answer))
    listener.start()
    print(listener.port, flush=True)
    loop.run_forever()


if __name__ == "__main__":
    main(Path(sys.argv[1]).read_bytes())
