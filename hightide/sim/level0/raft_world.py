"""A quorum under virtual time: nodes, a network between them, a client, and the watchers of its invariants.

Messages are calls that happen later, or never, or twice, in any order. Level 0 has no connections: what TCP forbids is
allowed here, so whatever holds here holds there.
"""

from collections.abc import Callable, Iterator

from hightide.replication.quorum import QuorumTimeouts, Role
from hightide.replication.quorum_effects import FetchFrom
from hightide.replication.quorum_events import QuorumFetchFailed, ResignationRequested
from hightide.replication.voters import Voter, VoterSet
from hightide.rules import ALL_ON, Rules
from hightide.sim.level0.kernel import InvariantError, Kernel
from hightide.sim.level0.raft_invariants import RaftInvariants
from hightide.sim.level0.raft_node import RaftNode

Message = Callable[[RaftNode, float], None]
SYNC_SECONDS = 0.0005
SLOW_SYNC_SECONDS_MAX = 3.0
CONVERGENCE_SECONDS = 40.0
SETTLING_SECONDS = 10.0  # for whoever is still behind, once there is a leader


class RaftWorld:
    """Voters 1…n and observers above them. `blocked` holds the (source, target) pairs that hear nothing."""

    def __init__(
        self,
        seed: int,
        *,
        voters: int = 3,
        observers: int = 0,
        rules: Rules = ALL_ON,
        timeouts: QuorumTimeouts = QuorumTimeouts(),  # noqa: B008 (immutable)
        keeps_timeline: bool = False,
    ) -> None:
        self.kernel = Kernel(seed, keeps_timeline=keeps_timeline)
        self.rules = rules
        self.timeouts = timeouts
        self.draws = self.kernel.stream("draws")
        self.faults = self.kernel.stream("faults")
        self._network = self.kernel.stream("network")
        self._disks = self.kernel.stream("disks")
        self._client = self.kernel.stream("client")
        self.voters = VoterSet(Voter(number, directory_id(number, 1)) for number in range(1, voters + 1))
        self.nodes = {
            number: RaftNode(self, number, directory_id(number, 1)) for number in range(1, voters + observers + 1)
        }
        self.invariants = RaftInvariants(self.voters.majority)
        self.delay = 0.002
        self.loss = 0.0
        self.duplicates = 0.0
        self.append_seconds = 0.05
        self.blocked: set[tuple[int, int]] = set()
        self.slow_until: dict[int, float] = {}
        self.values = 0
        self.elections = 0
        self._is_quiet = False

    def start(self) -> None:
        """Everybody begins, and the client with them."""
        for node in self.nodes.values():
            node.start()
        self.kernel.after(self.append_seconds, self._append)

    def voting_nodes(self) -> Iterator[RaftNode]:
        """Those whose disks count."""
        return (self.nodes[voter] for voter in self.voters.ids)

    def leaders(self) -> list[RaftNode]:
        """Whoever believes it leads; there may be several, in different epochs."""
        return [node for node in self.nodes.values() if node.machine is not None and node.machine.role is Role.LEADER]

    def say(self, text: str) -> None:
        """A line of the timeline."""
        self.kernel.trace.say(self.kernel.now, text)

    # ------------------------------------------------------------------ network and disks

    def send(self, source: RaftNode, target: int, life: int | None, message: Message) -> None:
        """Let a message arrive later at a node; an answer only in the life that asked."""
        if self.blocked and (source.id, target) in self.blocked:
            return
        chance = self._network.random
        if self.loss and chance() < self.loss:
            return
        kernel = self.kernel
        kernel.after(self.delay * (0.2 + chance()), self._arrive, source.id, target, life, message)
        if self.duplicates and chance() < self.duplicates:
            kernel.after(self.delay * 20 * chance(), self._arrive, source.id, target, life, message)

    def _arrive(self, source: int, target: int, life: int | None, message: Message) -> None:
        node = self.nodes[target]
        if (self.blocked and (source, target) in self.blocked) or (life is not None and life != node.life):
            return
        if node.machine is None:
            if life is None:
                self._refuse_connection(source)
            return
        kernel = self.kernel
        if kernel.now < node.paused_until:
            kernel.at(node.paused_until, self._arrive, source, target, life, message)
        else:
            message(node, kernel.now)

    def _refuse_connection(self, source: int) -> None:
        """Nobody listens: the operating system says so at once."""
        self._fail_fetch(self.nodes[source], refused=True)

    def reset_connections(self, dead: RaftNode) -> None:
        """A process is gone: whoever fetches from it notices."""
        for node in self.nodes.values():
            if node.fetch_under_way is not None and node.fetch_under_way.to == dead.id:
                self._fail_fetch(node, refused=False)

    def _fail_fetch(self, node: RaftNode, *, refused: bool) -> None:
        if node.machine is not None and node.fetch_under_way is not None:
            self.kernel.after(self.delay, self._fetch_failed, node, node.life, node.fetch_under_way, refused)

    def _fetch_failed(self, node: RaftNode, life: int, fetch: FetchFrom, refused: bool) -> None:
        is_heard = (fetch.to, node.id) not in self.blocked
        if node.machine is not None and node.life == life and is_heard and self.nodes[fetch.to].machine is None:
            node.handle(QuorumFetchFailed(fetch, self.kernel.now, refused))

    def after_syncs(self, node: RaftNode, count: int, action: Callable[..., None], *arguments: object) -> None:
        """Do something when the disk of a node has synced so many files; sometimes that takes seconds."""
        seconds = count * SYNC_SECONDS * (0.5 + self._disks.random())
        slow_until = self.slow_until.get(node.id)
        if slow_until is not None and self.kernel.now < slow_until:
            seconds += self._disks.random() * SLOW_SYNC_SECONDS_MAX
        self.kernel.after(seconds, action, *arguments)

    # ------------------------------------------------------------------ the client, and what nodes report

    def _append(self) -> None:
        random = self._client
        self.kernel.after(self.append_seconds * 2 * random.random(), self._append)
        for node in self.leaders():
            if self.kernel.now >= node.paused_until and not self._is_quiet:
                self.values += 1
                node.append(self.values, random.choice((1, 1, 2, 3)))
        if random.random() < 0.02:
            self._snapshot(self.nodes[random.choice(list(self.nodes))])

    def _snapshot(self, node: RaftNode) -> None:
        machine = node.machine
        if machine is not None and machine.high_watermark > node.log.start and self.kernel.now >= node.paused_until:
            node.take_snapshot(self._client.randint(node.log.start + 1, machine.high_watermark))

    def elected(self, node: RaftNode, epoch: int) -> None:
        """A node leads."""
        self.elections += 1
        self.invariants.elected(node, epoch)

    def doubt_ended(self, node: RaftNode) -> None:
        """A doubtful voter has caught up: it must hold what was acknowledged."""
        if self.kernel.trace.keeps_lines:
            self.say(f"node {node.id} is no longer doubtful")

    def resign(self, node: RaftNode) -> None:
        """Ask a leader to step down."""
        if node.machine is not None:
            node.handle(ResignationRequested(self.kernel.now))

    # ------------------------------------------------------------------ the end

    def heal(self) -> None:
        """Everything works from now on, and whoever was down starts again."""
        self.blocked.clear()
        self.slow_until.clear()
        self.loss = self.duplicates = 0.0
        self.delay = 0.002
        for node in self.nodes.values():
            if node.machine is None:
                node.start()

    def check_liveness(self) -> None:
        """After healing: a leader, new commits, and everybody holds everything committed."""
        before = self.invariants.records
        until = self.kernel.now + CONVERGENCE_SECONDS
        while self.kernel.now < until and self.invariants.records == before:
            self.kernel.run(self.kernel.now + 2.0)
        if self.invariants.records == before:
            raise InvariantError("liveness", "nothing was committed after healing")
        self.kernel.run(self.kernel.now + SETTLING_SECONDS)
        self._is_quiet = True
        self.kernel.run(self.kernel.now + 2.0)
        leaders = self.leaders()
        if len(leaders) != 1:
            raise InvariantError("liveness", f"{len(leaders)} leaders after healing")
        leader = leaders[0].machine
        assert leader is not None
        for node in self.nodes.values():
            machine = node.machine
            if machine is None or (machine.leader, machine.epoch) != (leader.leader, leader.epoch):
                raise InvariantError("liveness", f"node {node.id} does not follow {leader.leader} after healing")
            if machine.high_watermark != self.invariants.committed_end:
                raise InvariantError("liveness", f"node {node.id} is stuck at {machine.high_watermark}")
            self.invariants.holds_committed(node, "I20", f"node {node.id} ends")


def directory_id(node: int, generation: int) -> bytes:
    """The name of a disk: another one after a wipe."""
    return bytes((node, generation)) + bytes(14)
