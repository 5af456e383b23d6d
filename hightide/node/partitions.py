"""A partition on this node: its log, its replica machine, and the requests that wait for it.

The log keeps bytes, the machine decides what is committed, this class carries one to the other and wakes who waits.
"""

from collections.abc import Callable
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Protocol

from hightide.errors import ApiError, ErrorCode
from hightide.replication.effects import Effect, HighWatermarkMoved, StartEpoch
from hightide.replication.events import DurabilityChanged, LeadershipGranted, MinimumChanged
from hightide.replication.replica import CommitRule, Replica
from hightide.rules import Rules
from hightide.storage.log import Appended, Log, Read

if TYPE_CHECKING:
    from hightide.metadata.image import PartitionImage
    from hightide.node.commits import GroupCommit

READ_COMMITTED = 1


class CommitWaiter(Protocol):
    """A request that waits until an offset is committed."""

    def committed(self, index: int) -> None:
        """The part of the request with this index is committed."""

    def failed(self, index: int, code: ErrorCode) -> None:
        """It never will be, as far as this leader can tell."""


class Partition:
    """One replica of one partition, opened. Leads or refuses; knows nothing of the wire."""

    __slots__ = (
        "_commits", "_waiter_sequence", "_waiters", "fetch_waiters", "index", "is_synced_only", "key", "log",
        "offline_reason", "on_progress", "replica", "topic", "topic_id", "wake_fetches",
    )  # fmt: skip

    def __init__(
        self,
        topic: str,
        log: Log,
        node_id: int,
        high_watermark: int,
        commits: "GroupCommit",
        wake_fetches: Callable[[Callable[[], None]], None],
        rules: Rules,
        *,
        synced_only: bool,
        min_in_sync_replicas: int,
    ) -> None:
        self.topic = topic
        self.topic_id = log.topic_id
        self.index = log.partition
        self.key = (log.topic_id, log.partition)
        self.log = log
        self.is_synced_only = synced_only
        self.replica = Replica(
            node_id,
            CommitRule.IN_SYNC,
            end=log.end,
            synced_end=log.synced_end,
            high_watermark=max(high_watermark, log.start),
            synced_only=synced_only,
            min_in_sync_replicas=min_in_sync_replicas,
            rules=rules,
        )
        self.offline_reason: str | None = None
        self.fetch_waiters: dict[Callable[[], None], None] = {}
        self._waiters: list[tuple[int, int, CommitWaiter, int]] = []
        self._waiter_sequence = 0
        self._commits = commits
        self.on_progress = self._wake_fetches
        self.wake_fetches = wake_fetches

    # ------------------------------------------------------------------ leadership

    def lead(self, image: "PartitionImage") -> None:
        """Take the role the committed metadata gives (R8: never from local memory)."""
        self._carry_out(
            self.replica.handle(
                LeadershipGranted(
                    image.leader_epoch, image.partition_epoch, tuple(image.replicas), tuple(image.in_sync_replicas)
                )
            )
        )

    def configure(self, *, synced_only: bool, min_in_sync_replicas: int) -> None:
        """Take changed topic settings at once (N13)."""
        if synced_only != self.is_synced_only:
            self.is_synced_only = synced_only
            self._carry_out(self.replica.handle(DurabilityChanged(synced_only)))
            if synced_only:
                self._commits.dirty(self)
        if min_in_sync_replicas != self.replica.min_in_sync_replicas:
            self._carry_out(self.replica.handle(MinimumChanged(min_in_sync_replicas)))

    def _carry_out(self, effects: list[Effect]) -> None:
        for effect in effects:
            match effect:
                case StartEpoch(epoch, start):
                    self.log.epochs.assign(epoch, start)
                case HighWatermarkMoved():
                    self.committed()
                case _:
                    raise AssertionError(f"an in-sync replica does not ask for {effect}")

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Refuse what only a leader may answer, and requests from another epoch (R2)."""
        if self.offline_reason is not None:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, self.offline_reason)
        if current_leader_epoch >= 0:
            if current_leader_epoch < self.replica.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > self.replica.leader_epoch:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)
        if not self.replica.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    # ------------------------------------------------------------------ writing

    def append(self, records: memoryview, acks: int, now_ms: int) -> Appended:
        """Append a client's batch. What it takes to be committed begins before this returns."""
        replica = self.replica
        if self.offline_reason is not None or not replica.is_leader:
            self.check_leader()
        if acks == -1 and not replica.has_enough_in_sync:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        log = self.log
        appended = log.append_as_leader(records, replica.leader_epoch, now_ms)
        if not appended.duplicate:
            if replica.log_advanced(log.end, log.synced_end):
                self.committed()
            if self.is_synced_only or log.needs_sync:
                self._commits.dirty(self)
        return appended

    def synced(self) -> None:
        """A group commit reached this log."""
        if self.replica.log_advanced(self.log.end, self.log.synced_end):
            self.committed()

    def wait_for(self, offset: int, waiter: CommitWaiter, index: int) -> bool:
        """Whether `offset` (exclusive) is committed now; if not, the waiter is told when it is."""
        if self.replica.high_watermark >= offset:
            return True
        self._waiter_sequence += 1
        heappush(self._waiters, (offset, self._waiter_sequence, waiter, index))
        return False

    def committed(self) -> None:
        """The high watermark moved: answer who waited for it."""
        high_watermark = self.replica.high_watermark
        waiters = self._waiters
        while waiters and waiters[0][0] <= high_watermark:
            _, _, waiter, index = heappop(waiters)
            waiter.committed(index)
        if self.fetch_waiters:
            self.wake_fetches(self.on_progress)

    def _wake_fetches(self) -> None:
        for waiter in list(self.fetch_waiters):
            waiter()

    def go_offline(self, reason: str, code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """Stop for good in this process life: the disk failed, or the topic is gone."""
        self.offline_reason = reason
        waiters, self._waiters = self._waiters, []
        for _, _, waiter, index in waiters:
            waiter.failed(index, code)
        if self.fetch_waiters:
            self.wake_fetches(self.on_progress)

    # ------------------------------------------------------------------ reading

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended."""
        return self.log.last_stable_offset(self.replica.high_watermark)

    def read(self, offset: int, max_bytes: int, isolation: int, *, at_least_one: bool) -> Read | None:
        """Committed batches from `offset` on. R13: above the high watermark but in the log is empty, not an error."""
        bound = self.last_stable_offset if isolation == READ_COMMITTED else self.replica.high_watermark
        return self.log.read(offset, max_bytes, upper_bound=bound, min_one_batch=at_least_one)
