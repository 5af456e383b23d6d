"""What must hold in every quorum at all times (RELIABILITY.md I10, I13-I21), each check O(1) or paid once per batch.

The reference is the history of what was ever committed by anybody: a list of batches that only grows.
"""

from bisect import bisect_right
from typing import TYPE_CHECKING

from hightide.replication.quorum import Role
from hightide.replication.snapshots import SnapshotId
from hightide.sim.level0.kernel import InvariantError
from hightide.sim.level0.raft_log import LEADER_CHANGE, Batch

if TYPE_CHECKING:
    from hightide.sim.level0.raft_node import RaftNode

UNATTACHED, PROSPECTIVE, CANDIDATE = Role.UNATTACHED, Role.PROSPECTIVE, Role.CANDIDATE
LEADER, FOLLOWER, RESIGNED = Role.LEADER, Role.FOLLOWER, Role.RESIGNED
LEGAL_ROLE_CHANGES = {
    (UNATTACHED, PROSPECTIVE), (UNATTACHED, FOLLOWER), (FOLLOWER, PROSPECTIVE), (FOLLOWER, UNATTACHED),
    (PROSPECTIVE, CANDIDATE), (PROSPECTIVE, FOLLOWER), (PROSPECTIVE, UNATTACHED),
    (CANDIDATE, LEADER), (CANDIDATE, PROSPECTIVE), (CANDIDATE, FOLLOWER), (CANDIDATE, UNATTACHED),
    (LEADER, RESIGNED), (LEADER, UNATTACHED), (LEADER, FOLLOWER), (RESIGNED, UNATTACHED), (RESIGNED, FOLLOWER),
    (UNATTACHED, CANDIDATE), (FOLLOWER, CANDIDATE), (CANDIDATE, CANDIDATE),
}  # fmt: skip


class RaftInvariants:
    """The watcher of one quorum. `committed` is the truth; acknowledged records are those below `committed_end`."""

    def __init__(self, majority: int) -> None:
        self._majority = majority
        self._leaders: dict[int, tuple[int, int]] = {}
        self._newest_epoch = 0
        self._bases: list[int] = []
        self.committed: list[Batch] = []
        self.committed_end = 0
        self.records = 0
        self.trusts_disks = True  # disks that went back in time are beyond what an election can promise

    # ------------------------------------------------------------------ after each event

    def roles(self, node: "RaftNode", before: Role) -> None:
        """I21, when a role changed."""
        machine = node.machine
        assert machine is not None
        role = machine.role
        alone = len(machine.voters) == 1  # elects itself within one event when it does not wait for its disk
        if role is not before and (before, role) not in LEGAL_ROLE_CHANGES and not alone:
            raise InvariantError("I21", f"node {node.id} went from {before.value} to {role.value}")
        if role is LEADER and (machine.voted != node.id or machine.leader != node.id or not machine.is_voter):
            raise InvariantError("I21", f"node {node.id} leads epoch {machine.epoch} without its own vote")
        if role is CANDIDATE and machine.voted != node.id:
            raise InvariantError("I21", f"node {node.id} stands in epoch {machine.epoch} and voted {machine.voted}")
        if role is FOLLOWER and machine.leader in (node.id, -1):
            raise InvariantError("I21", f"node {node.id} follows {machine.leader}")

    def stored(self, node: "RaftNode", epoch: int, voted: int) -> None:
        """I14: what the vote file holds next."""
        if epoch < node.stored_epoch or (epoch == node.stored_epoch and node.stored_vote not in (-1, voted)):
            raise InvariantError(
                "I14", f"node {node.id} stores {epoch}/{voted} over {node.stored_epoch}/{node.stored_vote}"
            )

    # ------------------------------------------------------------------ when something rare happens

    def elected(self, node: "RaftNode", epoch: int) -> None:
        """I13, and I20 in its strongest form: whoever leads has everything that was acknowledged.

        Not so for one whose votes came late, after the election of a newer epoch: what that one committed is none of
        its business, and it can commit nothing (seed 14054).
        """
        self._newest_epoch = max(self._newest_epoch, epoch)
        leader = self._leaders.setdefault(epoch, (node.id, node.life))
        if leader != (node.id, node.life):
            raise InvariantError("I13", f"epoch {epoch} was led by {leader[0]}, and now by {node.id}")
        if self.trusts_disks and epoch == self._newest_epoch:
            self.holds_committed(node, "I20", f"node {node.id} was elected in epoch {epoch}")

    def holds_committed(self, node: "RaftNode", name: str, when: str) -> None:
        """This log holds every acknowledged record, or stands on a snapshot of it."""
        log = node.log
        own = log.between(log.start, self.committed_end) if log.end > log.start else []
        expected = self.committed[self._index(log.start) :]
        if log.end < self.committed_end or own != expected:
            raise InvariantError(name, f"{when} with {log.start}..{log.end}, not all of 0..{self.committed_end}")

    def moved(self, node: "RaftNode", before: int, high_watermark: int, is_leader: bool) -> None:
        """I15, I16, I19: a replica says that everything below `high_watermark` is committed."""
        if is_leader:
            assert node.machine is not None
            is_newest = node.machine.epoch == self._newest_epoch  # a deposed one may yet learn of what it committed
            if is_newest and high_watermark < self.committed_end:
                raise InvariantError("I15", f"leader {node.id} went to {high_watermark} after {self.committed_end}")
            reached = sum(1 for voter in node.world.voting_nodes() if voter.reached >= high_watermark)
            if reached < self._majority:
                raise InvariantError("I16", f"{reached} voters had {high_watermark} when {node.id} said committed")
        log = node.log
        batches = log.between(max(before, log.start), high_watermark) if high_watermark > log.start else []
        if batches:
            self._agree(node, batches, high_watermark)
        elif high_watermark > self.committed_end:
            raise InvariantError("I19", f"node {node.id} committed {high_watermark} without a record")

    def _agree(self, node: "RaftNode", batches: list[Batch], high_watermark: int) -> None:
        index = self._index(batches[0].base)
        known = self.committed[index : index + len(batches)]
        if batches[: len(known)] != known:
            wrong = next(pair for pair in zip(batches, known, strict=False) if pair[0] != pair[1])
            raise InvariantError("I19", f"node {node.id} committed {wrong[0]}, but {wrong[1]} was there")
        for batch in batches[len(known) :]:
            if batch.base != self.committed_end:
                raise InvariantError("I19", f"node {node.id} committed {batch} after {self.committed_end}")
            self.committed.append(batch)
            self._bases.append(batch.base)
            self.committed_end = batch.end
            if batch.value != LEADER_CHANGE:
                self.records += batch.end - batch.base
        if high_watermark > self.committed_end:
            raise InvariantError("I19", f"node {node.id} committed {high_watermark}, within a batch")

    def truncated(self, node: "RaftNode", offset: int) -> None:
        """I10: what is committed and held is never cut."""
        log = node.log
        cut = log.between(offset, log.end) if offset < log.end else []
        if cut and offset < self.committed_end and self.committed[self._index(cut[0].base)] == cut[0]:
            raise InvariantError("I10", f"node {node.id} cuts to {offset}, and {cut[0]} was committed")

    def snapshot_installed(self, node: "RaftNode", snapshot: SnapshotId, is_leader: bool) -> None:
        """I18, and I17: a snapshot tells of committed records only."""
        if is_leader:
            raise InvariantError("I18", f"leader {node.id} loads {snapshot}")
        self.snapshot_at_start(node, snapshot)

    def snapshot_at_start(self, node: "RaftNode", snapshot: SnapshotId | None) -> None:
        """I17: a log that does not start at 0 stands on a snapshot of what was committed."""
        if snapshot is None or snapshot.end < node.log.start or snapshot.end > self.committed_end:
            raise InvariantError("I17", f"the log of {node.id} starts at {node.log.start} on {snapshot}")
        if self.committed[self._index(snapshot.end - 1)].epoch != snapshot.epoch:
            raise InvariantError("I17", f"{snapshot} of node {node.id} names the wrong epoch")

    def _index(self, offset: int) -> int:
        """Where the committed batch that holds `offset` is, or would come."""
        if offset >= self.committed_end:
            return len(self.committed)
        return bisect_right(self._bases, offset) - 1
