"""Bad luck for a quorum: what goes wrong, when, and to whom; half of the time to whoever leads.

A fault strikes within what R9 and R17 promise to survive. Wiped and doubtful voters are never a majority together, so
what they lost lives on elsewhere; everything else may happen to everybody at once.
"""

from collections.abc import Callable

from hightide.sim.level0.raft_log import SimulatedLog
from hightide.sim.level0.raft_node import RaftNode
from hightide.sim.level0.raft_world import RaftWorld, directory_id
from hightide.types import NO_BROKER

CALM_SHARE = 0.25  # RELIABILITY.md: no fault in a quarter of the periods


class RaftFaults:
    """Strikes until a time. `struck` counts each kind that took effect."""

    def __init__(self, world: RaftWorld, *, until: float, seconds_between: float = 2.0) -> None:
        self._world = world
        self._random = world.faults
        self._until = until
        self._seconds_between = seconds_between
        self._wiped: set[int] = set()
        self.struck: dict[str, int] = {}
        self._kinds: tuple[tuple[float, Callable[[], bool]], ...] = (
            (4, self._kill),
            (4, self._lose_power),
            (1, self._lose_power_everywhere),
            (3, self._pause),
            (3, self._isolate),
            (2, self._split),
            (2, self._deafen),
            (2, self._slow_disk),
            (2, self._bad_network),
            (2, self._resign),
            (1.5, self._cast_doubt),
            (1, self._doubt_everybody),
            (1.5, self._wipe),
        )
        world.kernel.after(self._pause_between(), self._strike)

    def _pause_between(self) -> float:
        return self._random.expovariate(1 / self._seconds_between)

    def _strike(self) -> None:
        if self._world.kernel.now >= self._until:
            return
        self._world.kernel.after(self._pause_between(), self._strike)
        if self._random.random() < CALM_SHARE:
            return
        weights = [weight for weight, _ in self._kinds]
        kind = self._random.choices(self._kinds, weights)[0][1]
        if kind():
            name = kind.__name__.strip("_")
            self.struck[name] = self.struck.get(name, 0) + 1

    def _tell(self, text: str) -> bool:
        world = self._world
        world.kernel.trace.note(world.kernel.now, sum(map(ord, text)))
        if world.kernel.trace.keeps_lines:
            world.say(f"*** {text}")
        return True

    def _victim(self) -> RaftNode | None:
        """A running node, the leader half of the time."""
        leaders = self._world.leaders()
        if leaders and self._random.random() < 0.5:
            return self._random.choice(leaders)
        running = [node for node in self._world.nodes.values() if node.machine is not None]
        return self._random.choice(running) if running else None

    def _later(self, mean: float, action: Callable[..., None], *arguments: object) -> None:
        self._world.kernel.after(self._random.expovariate(1 / mean), action, *arguments)

    def _restart(self, node: RaftNode) -> None:
        if node.machine is None:
            self._tell(f"node {node.id} starts")
            node.start()

    # ------------------------------------------------------------------ processes

    def _kill(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.kill()
        self._later(1.0, self._restart, node)
        return self._tell(f"node {node.id} is killed")

    def _lose_power(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.lose_power()
        self._later(1.0, self._restart, node)
        return self._tell(f"node {node.id} loses power")

    def _lose_power_everywhere(self) -> bool:
        for node in self._world.nodes.values():
            if node.machine is not None:
                node.lose_power()
                self._later(1.0, self._restart, node)
        return self._tell("all nodes lose power")

    def _pause(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        node.paused_until = self._world.kernel.now + self._random.expovariate(1 / 2.0)
        return self._tell(f"node {node.id} is stopped until {node.paused_until:.2f}")

    def _resign(self) -> bool:
        leaders = self._world.leaders()
        if not leaders or leaders[0].paused_until > self._world.kernel.now:
            return False
        self._tell(f"node {leaders[0].id} is asked to resign")
        self._world.resign(leaders[0])
        return True

    # ------------------------------------------------------------------ network

    def _block(self, pairs: set[tuple[int, int]]) -> None:
        self._world.blocked |= pairs
        self._later(3.0, self._unblock, pairs)

    def _unblock(self, pairs: set[tuple[int, int]]) -> None:
        self._tell("a partition heals")
        self._world.blocked -= pairs

    def _isolate(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        others = [other for other in self._world.nodes if other != node.id]
        self._block({(node.id, other) for other in others} | {(other, node.id) for other in others})
        return self._tell(f"node {node.id} is cut off")

    def _split(self) -> bool:
        everybody = list(self._world.nodes)
        self._random.shuffle(everybody)
        left = everybody[: len(everybody) // 2]
        right = everybody[len(everybody) // 2 :]
        self._block({(a, b) for a in left for b in right} | {(b, a) for a in left for b in right})
        return self._tell(f"the network splits into {sorted(left)} and {sorted(right)}")

    def _deafen(self) -> bool:
        """One way only: it speaks and hears nothing, or the other way round."""
        node = self._victim()
        if node is None:
            return False
        others = [other for other in self._world.nodes if other != node.id]
        if self._random.random() < 0.5:
            self._block({(other, node.id) for other in others})
            return self._tell(f"node {node.id} hears nobody")
        self._block({(node.id, other) for other in others})
        return self._tell(f"nobody hears node {node.id}")

    def _bad_network(self) -> bool:
        world = self._world
        world.loss = self._random.random() * 0.3
        world.duplicates = self._random.random() * 0.3
        world.delay = self._random.choice((0.002, 0.02, 0.2))
        self._later(3.0, self._good_network)
        return self._tell(f"the network loses {world.loss:.2f} and doubles {world.duplicates:.2f}")

    def _good_network(self) -> None:
        self._world.loss = self._world.duplicates = 0.0
        self._world.delay = 0.002
        self._tell("the network is good again")

    # ------------------------------------------------------------------ disks

    def _slow_disk(self) -> bool:
        node = self._victim()
        if node is None:
            return False
        self._world.slow_until[node.id] = self._world.kernel.now + self._random.expovariate(1 / 3.0)
        return self._tell(f"the disk of node {node.id} is slow")

    def _impaired(self) -> int:
        return len(self._wiped) + sum(1 for node in self._world.voting_nodes() if node.is_doubtful)

    def _may_impair(self, node: RaftNode | None) -> bool:
        voters = self._world.voters
        spare = len(voters) - voters.majority
        return node is not None and node.id in voters and not node.is_doubtful and self._impaired() < spare

    def _cast_doubt(self) -> bool:
        """Synced batches are unreadable, readable ones behind them (R17)."""
        node = self._victim()
        if node is None or not self._may_impair(node) or node.id in self._wiped:
            return False
        node.lose_power()
        node.log.lose_synced(self._random)
        node.checkpointed = min(node.checkpointed, node.log.end)
        node.is_doubtful = True
        self._later(1.0, self._restart, node)
        return self._tell(f"the disk of node {node.id} lost synced batches from {node.log.end} on")

    def _doubt_everybody(self) -> bool:
        """All voters find holes, in what was never synced: no ordinary election is left."""
        if self._wiped or self._impaired():
            return False
        for node in self._world.voting_nodes():
            node.lose_power()
            node.is_doubtful = True
            self._later(1.0, self._restart, node)
        return self._tell("all voters are doubtful")

    def _wipe(self) -> bool:
        """A new disk: another directory id, and nothing on it."""
        node = self._victim()
        if node is None or not self._may_impair(node) or node.id in self._wiped:
            return False
        node.kill()
        self._wiped.add(node.id)
        node.directory_id = directory_id(node.id, 2)
        node.log = SimulatedLog()
        node.snapshot = None
        node.stored_epoch, node.stored_vote, node.checkpointed = 0, NO_BROKER, 0
        self._later(1.0, self._restart, node)
        return self._tell(f"node {node.id} gets an empty disk")
