"""Where faults happen: the nodes, the clients, who is kept down on purpose, and the supervisor of the others."""

import asyncio
from collections import Counter
from collections.abc import Iterable
from random import Random

from hightide.sim.process import Condition, SimulatedProcess
from hightide.sim.topology import host_of, node_settings
from hightide.sim.world import World

SUPERVISOR_SECONDS = 0.5  # how long a process that died by itself stays dead
LEADER_SHARE, CONTROLLER_SHARE = 0.3, 0.25  # of the victims


class Site:
    """Where faults happen: the nodes, the clients, and who is kept down on purpose."""

    def __init__(self, world: World, nodes: list[SimulatedProcess]) -> None:
        self.world = world
        self.nodes = nodes
        self.founders = len(nodes)
        self.kept_down: Counter[str] = Counter()
        self.has_rotten = False
        """Whether some replica turned bad."""
        self._down_since: dict[str, float] = {}

    def pick(self, random: Random) -> SimulatedProcess:
        """Some node: often one that leads a partition, sometimes the active controller."""
        role, anyone = random.random(), random.choice(self.nodes)
        if role < LEADER_SHARE:
            wanted = [node for node in self.nodes if _leads(node)]
        elif role < LEADER_SHARE + CONTROLLER_SHARE:
            wanted = [node for node in self.nodes if node.is_up and node.node and node.node.metadata.is_active]
        else:
            wanted = []
        return wanted[int(random.random() * len(wanted))] if wanted else anyone

    def others(self, host: str) -> list[str]:
        """Every other host."""
        return [name for name in (*self.world.processes, *self.world.clients) if name != host]

    def join(self) -> SimulatedProcess:
        """One more broker, which was told of the same controllers."""
        number = len(self.nodes) + 1
        node = self.world.add_node(host_of(number), node_settings(number, self.founders))
        self.nodes.append(node)
        node.start()
        return node

    async def supervise(self) -> None:
        """Start what died by itself, until cancelled."""
        while True:
            for node in self.nodes:
                if node.condition is not Condition.DOWN or self.kept_down[node.name]:
                    self._down_since.pop(node.name, None)
                elif self.world.now - self._down_since.setdefault(node.name, self.world.now) >= SUPERVISOR_SECONDS:
                    node.start()
            await asyncio.sleep(SUPERVISOR_SECONDS / 2)

    async def keep_down(self, nodes: Iterable[SimulatedProcess], seconds: float) -> None:
        """They stay down for a while, then start."""
        nodes = list(nodes)
        self.kept_down.update(node.name for node in nodes)
        try:
            await asyncio.sleep(seconds)
        finally:
            self.kept_down.subtract(node.name for node in nodes)
        for node in nodes:
            if not self.kept_down[node.name]:
                node.start()

    def heal(self) -> None:
        """Nothing is wrong any more, but what has been done."""
        self.kept_down.clear()
        self.world.network.heal()
        for node in self.nodes:
            node.disk.heal()
            node.disk.crash_at(0)
            node.disk.capacity = None
            node.speed.reset()
            node.time.drift(1.0)
            node.resume()
            node.start()


def _leads(process: SimulatedProcess) -> bool:
    node = process.node
    return process.is_up and node is not None and any(partition.replica.is_leader for partition in node.assignments)
