"""Small simulated worlds for unit tests."""

from random import Random

from hightide.sim.clock import MachineTime
from hightide.sim.loop import SimulatedLoop
from hightide.sim.network import HostNetwork, SimulatedNetwork
from hightide.sim.scheduler import Scheduler
from hightide.sim.trace import Trace


class SmallWorld:
    """A scheduler with as many loops as a test wants."""

    def __init__(self, seed: int = 0, disorder: float = 0.0) -> None:
        self.scheduler = Scheduler(Random(f"{seed}:schedule"), disorder)
        self.trace = Trace(self.scheduler)
        self.errors: list[str] = []
        self.loop = self.make_loop("test")
        self.network = SimulatedNetwork(self.make_loop("network"), Random(f"{seed}:network"), self.trace)

    def make_loop(self, name: str, time: MachineTime | None = None) -> SimulatedLoop:
        loop = SimulatedLoop(self.scheduler, name, time or MachineTime(self.scheduler))  # type: ignore[abstract]
        loop.on_exception = lambda context: self.errors.append(str(context.get("exception")))
        return loop

    def host(self, name: str) -> HostNetwork:
        return HostNetwork(self.network, self.loop, name)
