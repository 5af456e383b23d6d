"""What a process does in one turn of its loop: it reads from every connection that has something for it.

The same as in `runtime.connections.Turn`: requests that come together are handed over together, those that bring
records first. A process that is busy for a while, `SimulatedNetwork.busy_seconds`, finds more of them.
"""

from typing import TYPE_CHECKING

from hightide.node.ports import Burst

if TYPE_CHECKING:
    from hightide.sim.connections import SimulatedConnection
    from hightide.sim.loop import SimulatedLoop
    from hightide.sim.network import SimulatedNetwork


class Turn:
    """The connections of one process that have something to read."""

    def __init__(self, network: "SimulatedNetwork", loop: "SimulatedLoop", burst: Burst) -> None:
        self._network = network
        self._loop = loop
        self._burst = burst
        self._readable: list[SimulatedConnection] = []

    def read_soon(self, connection: "SimulatedConnection") -> None:
        """Read from it in the next turn."""
        self._readable.append(connection)
        if len(self._readable) > 1:
            return
        if self._network.busy_seconds:
            self._loop.call_later(self._network.draw() * self._network.busy_seconds, self._read)
        else:
            self._loop.call_soon(self._read)

    def _read(self) -> None:
        readable, self._readable = self._readable, []
        bringing = [connection for connection in readable if connection.brings_records]
        burst = self._burst
        burst.begin()
        try:
            for connection in bringing:
                connection.readable()
            burst.settle()
            for connection in readable:
                if connection not in bringing:
                    connection.readable()
        finally:
            burst.end()
        burst.wake()
