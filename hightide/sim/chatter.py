"""Nodes that talk without end: a loop that asks, is refused and asks again at once costs a processor in the real world.

In a simulation it costs nothing but time passing slowly, so it is counted (I33). Clients pause between what they do;
what nodes tell each other follows from that and from their timers.
"""

from hightide.sim.network import SimulatedNetwork
from hightide.sim.trace import Trace

PIECES_PER_SECOND_MAX = 300  # three times what was ever seen in one direction between two hosts that work
WINDOW_SECONDS = 1.0


class Chatter:
    """Looks at the counters of all links once in a while."""

    def __init__(self, network: SimulatedNetwork, trace: Trace) -> None:
        self._network = network
        self._trace = trace
        self._since = 0.0
        self._before: dict[tuple[str, str], int] = {}

    def look(self) -> None:
        """Report directions that carried too much since the last look, if that is long enough ago."""
        now = self._network.now
        seconds = now - self._since
        if seconds < WINDOW_SECONDS:
            return
        self._since = now
        for source, target, link in self._network.links():
            before = self._before.get((source, target), 0)
            self._before[source, target] = link.delivered
            if link.delivered - before > PIECES_PER_SECOND_MAX * seconds:
                rate = round((link.delivered - before) / seconds)
                self._trace.report("I33", f"{source} told {target} {rate} things a second for {seconds:.1f} s")
