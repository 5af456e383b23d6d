"""What must hold for one partition at all times (RELIABILITY.md I1-I7, I9-I12, I15, I23).

The reference is what was ever committed: the records below any leader's high watermark, a list that only grows. Every
check is O(1) or O(members), since logs are compared by the hashes of their prefixes.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from hightide.metadata.entities import Partition
from hightide.sim.level0.kernel import InvariantError
from hightide.sim.level0.partition_log import PartitionLog, Record
from hightide.types import NO_BROKER

if TYPE_CHECKING:
    from hightide.sim.level0.partition_replica import HostedReplica
    from hightide.sim.level0.partitions import PartitionWorld

Writer = tuple[int, int]
NOTED_COMMIT = 2


class Truth:
    """The watcher of one partition."""

    def __init__(self, world: "PartitionWorld", name: str, topic_id: bytes, index: int) -> None:
        self._world = world
        self.name = f"{name}-{index}"
        self.directory = (name, index)
        self.key = (topic_id, index)
        self.records: list[Record] = []
        """Everything that was ever committed."""
        self._prefixes: list[int] = []
        self._known: dict[tuple[int, int], int] = {}
        """(offset, epoch) → the one prefix that ends so, in whichever log (I4)."""
        self._writers: dict[int, Writer] = {}
        self._sequences: dict[int, int] = {}
        self.agreed: Partition | None = None
        """What the controller quorum committed last."""
        self.voluntary_epochs: set[int] = set()
        """Leader epochs that began while the former leader was well: its lease may go on (R16)."""
        self._newest_written_epoch = -1
        self.acknowledged = 0
        """How many records were acknowledged with acks=all."""
        self.acknowledged_end = 0
        self.leader_changes = 0
        self.losses = 0
        """Recorded possible losses, where no promise covered the records."""

    @property
    def committed_end(self) -> int:
        """The true high watermark."""
        return len(self._prefixes)

    def fail(self, name: str, what: str) -> None:
        """Report a broken invariant."""
        raise InvariantError(name, f"{self.name}: {what}")

    # ------------------------------------------------------------------ what replicas do

    def appended(self, log: PartitionLog, record: Record) -> None:
        """I4: the same offset and epoch mean the same record and the same history below it, for ever."""
        prefix = log.prefixes[-1]
        if self._known.setdefault((log.end - 1, record[0]), prefix) != prefix:
            self.fail("I4", f"offset {log.end - 1} of epoch {record[0]} exists twice, now {record}")

    def written(self, replica: "HostedReplica", epoch: int) -> None:
        """I12: one writer per leader epoch, a life of a broker; and never two lease holders at a time."""
        writer = (replica.broker_id, replica.life)
        if self._writers.setdefault(epoch, writer) != writer:
            self.fail("I12", f"epoch {epoch} was written by {self._writers[epoch]} and by {writer}")
        if epoch > self._newest_written_epoch:
            self._newest_written_epoch = epoch
        elif epoch < self._newest_written_epoch and self._world.checks_leases:
            newer = range(epoch + 1, self._newest_written_epoch + 1)
            if self.voluntary_epochs.isdisjoint(newer):
                self.fail("I12", f"{writer} wrote in epoch {epoch} after {self._newest_written_epoch} had begun")

    def led(self, replica: "HostedReplica", epoch: int) -> None:
        """I1: a leader holds everything committed. One that takes its role late is judged when it acts."""
        agreed = self.agreed
        if agreed is None or agreed.leader_epoch != epoch or agreed.leader != replica.broker_id:
            return
        if not replica.log.has_prefix(self.committed_end, self._committed_prefix()):
            self.fail(
                "I1",
                f"broker {replica.broker_id} leads epoch {epoch} up to {replica.log.end}, {self._lacks(replica.log)}",
            )
        if replica.log.last_epoch > epoch:
            self.fail("I11", f"broker {replica.broker_id} leads epoch {epoch} with records of {replica.log.last_epoch}")

    def leader_moved(self, replica: "HostedReplica", high_watermark: int) -> None:
        """I5, I6, I7, I10, I15: a leader says that everything below is committed."""
        log = replica.log
        if high_watermark <= replica.highest_told:
            self.fail("I15", f"broker {replica.broker_id} led to {replica.highest_told}, then to {high_watermark}")
        self._check_range(replica, high_watermark)
        self._world.noted(NOTED_COMMIT, replica.broker_id, self.key[1], high_watermark)
        known = self.committed_end
        common = min(known, high_watermark)
        if log.prefix(common) != (self._prefixes[common - 1] if common else 0):
            self.fail("I6", f"broker {replica.broker_id} changed what was readable below {common}")
        if high_watermark > known:
            for offset in range(known, high_watermark):
                self._commit(log.records[offset], log.prefixes[offset])
        self._check_members("I5", high_watermark)

    def follower_moved(self, replica: "HostedReplica", high_watermark: int) -> None:
        """I6, I10: what a follower would serve is what was committed."""
        self._check_range(replica, high_watermark)
        if high_watermark > self.committed_end:
            self.fail("I10", f"follower {replica.broker_id} says {high_watermark}, committed is {self.committed_end}")
        if high_watermark and replica.log.prefix(high_watermark) != self._prefixes[high_watermark - 1]:
            self.fail("I6", f"follower {replica.broker_id} would serve other records below {high_watermark}")

    def truncating(self, replica: "HostedReplica", offset: int) -> None:
        """I10: nothing committed is ever cut, wherever it is."""
        log = replica.log
        if offset < min(log.end, self.committed_end) and log.prefixes[offset] == self._prefixes[offset]:
            self.fail(
                "I10", f"broker {replica.broker_id} cuts its log to {offset}, below the committed {self.committed_end}"
            )

    def acknowledge(self, offset: int, record: Record) -> None:
        """A client was told that its record is safe."""
        if offset >= self.committed_end or self.records[offset][1:] != record[1:]:
            self.fail("I7", f"{record} was acknowledged at {offset}, committed up to {self.committed_end}")
        self.acknowledged += 1
        self.acknowledged_end = max(self.acknowledged_end, offset + 1)

    def forgive(self, log: PartitionLog, others: Iterable[PartitionLog]) -> None:
        """A loss that no promise covered is recorded: what nobody who was waited for has is gone, and nothing else."""
        kept = self._common(log)
        best = max((self._common(other) for other in others), default=kept)
        if best > kept:
            self.fail("I7", f"the new leader has {kept} of {self.committed_end}, another had {best}")
        del self._prefixes[kept:], self.records[kept:]
        self._sequences = {producer: sequence for _, producer, sequence in self.records}
        self.losses += 1

    def _common(self, log: PartitionLog) -> int:
        """How much of what was committed a log holds."""
        common = min(log.end, self.committed_end)
        while common and log.prefix(common) != self._prefixes[common - 1]:
            common -= 1
        return common

    def _check_range(self, replica: "HostedReplica", high_watermark: int) -> None:
        log = replica.log
        if not log.start <= high_watermark <= log.end:
            self.fail("I10", f"broker {replica.broker_id} says {high_watermark}, its log is {log.start}..{log.end}")

    def _commit(self, record: Record, prefix: int) -> None:
        _, producer, sequence = record
        if producer >= 0:
            if self._sequences.get(producer, -1) + 1 != sequence:
                self.fail("I23", f"producer {producer} has {sequence} after {self._sequences.get(producer, -1)}")
            self._sequences[producer] = sequence
        self.records.append(record)
        self._prefixes.append(prefix)

    def _committed_prefix(self) -> int:
        return self._prefixes[-1] if self._prefixes else 0

    def _lacks(self, log: PartitionLog) -> str:
        return f"lacks {self._common(log)}..{self.committed_end} of what was committed"

    # ------------------------------------------------------------------ what the controller commits

    def agree(self, partition: Partition, minimum: int, is_live: Iterable[int]) -> None:
        """I2, I3, I9, I11: a change of the partition is committed."""
        before = self.agreed
        self.agreed = partition
        in_sync, eligible = set(partition.in_sync_replicas), set(partition.eligible_leader_replicas)
        if in_sync & eligible or not in_sync | eligible <= set(partition.replicas):
            self.fail("I9", f"in sync {partition.in_sync_replicas}, eligible {partition.eligible_leader_replicas}")
        if not in_sync <= set(is_live):
            self.fail("I9", f"in sync {partition.in_sync_replicas}, live {sorted(is_live)}")
        if partition.leader != NO_BROKER and partition.leader not in in_sync:
            self.fail("I9", f"leader {partition.leader} is not in sync {partition.in_sync_replicas}")
        if eligible and len(in_sync) >= minimum:
            self.fail("I9", f"eligible {sorted(eligible)} beside {len(in_sync)} in sync, minimum {minimum}")
        if before is not None:
            if partition.leader_epoch < before.leader_epoch or partition.partition_epoch <= before.partition_epoch:
                self.fail("I11", f"epochs fell: {before} then {partition}")
            self.leader_changes += partition.leader != before.leader and partition.leader != NO_BROKER
        self.check_sets()

    def check_sets(self) -> None:
        """I2 and I3, whenever a set changed on either side."""
        agreed = self.agreed
        if agreed is None:
            return
        self._check_members("I2", self.committed_end)
        leader = self._world.leader_of(self.key)
        if leader is not None and leader.machine.leader_epoch == agreed.leader_epoch:
            leadership = leader.machine.leadership
            if leadership is not None and not leadership.maximal >= set(agreed.in_sync_replicas):
                self.fail(
                    "I3", f"the leader counts {sorted(leadership.maximal)}, committed is {agreed.in_sync_replicas}"
                )

    def _check_members(self, name: str, end: int) -> None:
        """Every in-sync or eligible member holds everything below `end`: on its disk, where the topic says so."""
        agreed = self.agreed
        if agreed is None or not end:
            return
        prefix = self._prefixes[end - 1]
        is_synced_only = self._world.is_synced_only(self)
        members = agreed.in_sync_replicas if name == "I5" else agreed.in_sync_replicas + agreed.eligible_leader_replicas
        for member in members:
            log = self._world.member_log(member, self)
            if log is None:
                continue
            if not log.has_prefix(end, prefix):
                self.fail(name, f"member {member} ends at {log.end}, {self._lacks(log)} (of {end})")
            if is_synced_only and log.durable_end < end:
                self.fail(name, f"member {member} has synced {log.durable_end}, committed is {end}")
