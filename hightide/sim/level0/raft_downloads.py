"""How a simulated follower gets a snapshot: piece by piece, each asked for and answered by a message."""

from typing import TYPE_CHECKING

from hightide.replication.quorum_effects import AnswerSnapshotFetch, LoadSnapshot
from hightide.replication.quorum_events import (
    SnapshotDownloaded,
    SnapshotFailed,
    SnapshotProgressed,
    SnapshotRequested,
)
from hightide.sim.level0.raft_serving import Asked

if TYPE_CHECKING:
    from hightide.sim.level0.raft_node import RaftNode

PIECES = 3
PIECE_TIMEOUT_SECONDS = 1.0


class Download:
    """The snapshot that one process of a node is fetching, if any."""

    __slots__ = ("_load", "_node", "_piece")

    def __init__(self, node: "RaftNode") -> None:
        self._node = node
        self._load: LoadSnapshot | None = None
        self._piece = 0

    def begin(self, load: LoadSnapshot) -> None:
        """Ask for the first piece."""
        self._ask(load, PIECES)

    def _ask(self, load: LoadSnapshot, piece: int) -> None:
        self._load, self._piece = load, piece
        node = self._node
        request = Asked(node.id, node.life, (load, piece))
        source, directory_id = node.id, node.directory_id
        node.world.kernel.after(PIECE_TIMEOUT_SECONDS, node.wake, self, self._overdue, load, piece)
        node.world.send(
            node, load.leader, None,
            lambda leader, now: leader.handle(SnapshotRequested(request, source, load.epoch, now, directory_id)),
        )  # fmt: skip

    def _overdue(self, load: LoadSnapshot, piece: int) -> None:
        if (self._load, self._piece) == (load, piece):
            self._load = None
            self._node.handle(SnapshotFailed(load, self._node.world.kernel.now))

    def arrived(self, load: LoadSnapshot, piece: int, now: float) -> None:
        """A piece; the last one completes it. A copy of an earlier one is nothing new."""
        if (self._load, self._piece) != (load, piece):
            return
        if piece > 1:
            self._node.handle(SnapshotProgressed(load, now))
            self._ask(load, piece - 1)
        else:
            self._load = None
            self._node.handle(SnapshotDownloaded(load, now))


def answer_piece(node: "RaftNode", effect: AnswerSnapshotFetch) -> None:
    """The leader's side: the piece, or why not."""
    request, leader, epoch = effect.request, effect.leader, effect.epoch
    assert isinstance(request, Asked)
    load, piece = request.about
    if effect.error:
        node.world.send(
            node, request.node, request.life,
            lambda asker, now: asker.handle(SnapshotFailed(load, now, leader, epoch)),
        )  # fmt: skip
    else:
        node.world.send(
            node, request.node, request.life, lambda asker, now: asker.download.arrived(load, piece, now)
        )  # fmt: skip
