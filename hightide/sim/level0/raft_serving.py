"""How a simulated leader answers fetches: when there is something to send, or when time is up."""

from typing import TYPE_CHECKING, Any, NamedTuple

from hightide.errors import ErrorCode
from hightide.replication.quorum import QuorumReplica
from hightide.replication.quorum_effects import AnswerFetch
from hightide.replication.quorum_events import QuorumFetchAnswered, QuorumFetched
from hightide.replication.quorum_progress import NEVER
from hightide.sim.level0.raft_log import Batch

if TYPE_CHECKING:
    from hightide.sim.level0.raft_node import RaftNode

FETCH_WAIT_SECONDS = 0.5


class Asked(NamedTuple):
    """Who waits for an answer: a process in one of its lives, and what it asked about."""

    node: int
    life: int
    about: Any = None
    high_watermark: int = 0


class Serving:
    """The fetches that one process of a node was asked."""

    __slots__ = ("_answered_at", "_machine", "_node", "_wakes", "parked")

    def __init__(self, node: "RaftNode", machine: QuorumReplica) -> None:
        self._node = node
        self._machine = machine
        self._answered_at: dict[int, tuple[int, float]] = {}
        self._wakes = False
        self.parked: list[tuple[float, AnswerFetch]] = []

    def fetched(self, event: QuorumFetched) -> None:
        """Somebody fetches here; what it was answered before on this connection tells how old its news are (R16)."""
        life, answered_at = self._answered_at.get(event.replica, (0, NEVER))
        request = event.request
        assert isinstance(request, Asked)
        self._node.handle(event._replace(answered_at=answered_at) if life == request.life else event)

    def answer(self, effect: AnswerFetch) -> None:
        """Carry out the machine's verdict."""
        if effect.error or effect.diverging is not None or effect.snapshot is not None:
            self._send(effect, effect.high_watermark, [])
            return
        node = self._node
        batches = node.log.read(effect.offset, node.batches_per_fetch)
        request = effect.request
        assert isinstance(request, Asked)
        if batches or request.high_watermark < effect.high_watermark:
            self._send(effect, effect.high_watermark, batches)
            return
        due = node.world.kernel.now + FETCH_WAIT_SECONDS
        self.parked.append((due, effect))
        if not self._wakes:
            self._wakes = True
            node.world.kernel.at(due, node.wake, self, self._time_is_up)

    def look_again(self) -> None:
        """The log grew, or the high watermark rose."""
        node, high_watermark = self._node, self._machine.high_watermark
        parked, self.parked = self.parked, []
        for due, answer in parked:
            batches = node.log.read(answer.offset, node.batches_per_fetch)
            request = answer.request
            assert isinstance(request, Asked)
            if batches or high_watermark > request.high_watermark:
                self._send(answer, high_watermark, batches)
            else:
                self.parked.append((due, answer))

    def _time_is_up(self) -> None:
        kernel = self._node.world.kernel
        self.end_polls(kernel.now)
        self._wakes = bool(self.parked)
        if self.parked:
            kernel.at(self.parked[0][0], self._node.wake, self, self._time_is_up)

    def end_polls(self, now: float) -> None:
        """An empty answer to those whose time is up: it says that the leader lives."""
        due = [answer for until, answer in self.parked if until <= now]
        self.parked = [parked for parked in self.parked if parked[0] > now]
        for answer in due:
            self._send(answer, self._machine.high_watermark, [])

    def stop_leading(self) -> None:
        """Whoever waits here must look elsewhere."""
        machine = self._machine
        parked, self.parked = self.parked, []
        for _, answer in parked:
            refusal = answer._replace(
                error=ErrorCode.NOT_LEADER_OR_FOLLOWER, leader=machine.leader, epoch=machine.epoch
            )  # fmt: skip
            self._send(refusal, machine.high_watermark, [])

    def _send(self, answer: AnswerFetch, high_watermark: int, batches: list[Batch]) -> None:
        request, _, error, leader, epoch, _, _, diverging, snapshot = answer
        assert isinstance(request, Asked)
        fetch, has_records = request.about, bool(batches)
        world = self._node.world
        if not error:
            self._answered_at[request.node] = (request.life, world.kernel.now)
        world.send(
            self._node, request.node, request.life,
            lambda node, now: node.fetch_answered(
                QuorumFetchAnswered(
                    fetch, leader, epoch, now, error, high_watermark, diverging, snapshot, has_records
                ),
                batches,
            ),
        )  # fmt: skip
