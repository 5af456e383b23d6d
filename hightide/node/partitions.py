"""A partition on this node: its log, its replica machine, and the requests that wait for it.

The log keeps bytes, the machine decides what is committed, this class carries one to the other and wakes who waits. It
turns what a disk does into what a client is told: a full disk refuses produce and still serves fetch, a failed one ends
the directory (R10), rotten bytes take the partition offline with an alarm and nothing is deleted (R17).
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from errno import ENOSPC
from typing import TYPE_CHECKING, Final, Protocol

from hightide.errors import ApiError, CorruptionError, DiskFullError, ErrorCode, StorageError
from hightide.limits import EARLIER_BATCHES_AWAITED_SECONDS
from hightide.node.log_view import StoredLog
from hightide.replication.effects import (
    AdvanceStart,
    AppendFetched,
    Effect,
    FailWaiting,
    HighWatermarkMoved,
    ListAgain,
    ProposeInSync,
    RememberHorizon,
    RestartLogAt,
    StartEpoch,
    TruncateTo,
)
from hightide.replication.events import (
    BrokersChanged,
    DurabilityChanged,
    Event,
    FetchAnswered,
    FollowershipGranted,
    InSyncAnswered,
    LeadershipGranted,
    LogTruncated,
    MinimumChanged,
    TimePassed,
)
from hightide.replication.fetching import FetchVerdict
from hightide.replication.leases import UNLIMITED, Lease
from hightide.replication.replica import CommitRule, Replica
from hightide.replication.throttle import NOBODY, throttled_brokers
from hightide.rules import Rules
from hightide.storage.log import Appended, Log, Read
from hightide.storage.recovery import NO_DESCRIPTORS
from hightide.storage.settings import NEVER_COMPACTED
from hightide.types import INTERNAL_TOPICS, NO_EPOCH, TopicPartition
from hightide.wire.records import Records, read_header

if TYPE_CHECKING:
    from hightide.metadata.entities import Broker
    from hightide.metadata.entities import Partition as AgreedPartition
    from hightide.node.commits import GroupCommit
    from hightide.node.follower_news import FollowerNews
    from hightide.node.ports import Clock
    from hightide.node.waiting import Turn
    from hightide.storage.directory import LogDirectory

log = logging.getLogger("hightide.partitions")

LONG_AGO: Final = float("-inf")


class CommitWaiter(Protocol):
    """A request that waits until an offset is committed."""

    def committed(self, number: int) -> None:
        """The part of the request with this number is committed."""

    def failed(self, number: int, code: ErrorCode) -> None:
        """It never will be, as far as this leader can tell."""


class Waiting:
    """Part `number` of a request, until `offset` is reached."""

    __slots__ = ("number", "offset", "waiter")

    def __init__(self, offset: int, waiter: CommitWaiter, number: int) -> None:
        self.offset = offset
        self.waiter = waiter
        self.number = number


class PartitionWorld:
    """What all partitions of a node share."""

    __slots__ = (
        "clock", "commits", "cut_readers", "directory", "disk_failed", "lag_time_max", "lease", "node_id", "propose",
        "quarantined", "rules", "space", "turn",
    )  # fmt: skip

    def __init__(
        self,
        node_id: int,
        clock: "Clock",
        directory: "LogDirectory",
        commits: "GroupCommit",
        disk_failed: Callable[[Exception], None],
        turn: "Turn",
        propose: "Callable[[Partition, ProposeInSync], None]",
        cut_readers: Callable[[], None],
        quarantined: Callable[[], None],
        rules: Rules,
        *,
        lease: Lease = UNLIMITED,
        lag_time_max: float = 10.0,
    ) -> None:
        self.node_id = node_id
        self.clock = clock
        self.directory = directory
        self.space = directory.space
        self.commits = commits
        self.disk_failed = disk_failed
        self.turn = turn
        self.propose = propose
        self.cut_readers = cut_readers
        self.quarantined = quarantined
        self.rules = rules
        self.lease = lease
        self.lag_time_max = lag_time_max


class Partition:
    """One replica of one partition, opened. Leads or refuses; knows nothing of the wire."""

    __slots__ = (
        "_led_since", "_on_append", "_on_progress", "_waiters", "_world", "fetch_waiters", "index",
        "is_internal", "is_synced_only", "log", "offline_code", "offline_epoch", "offline_reason", "on_synced",
        "replica", "throttled_followers", "throttled_following", "topic", "topic_id", "watchers",
    )  # fmt: skip

    def __init__(
        self,
        world: PartitionWorld,
        opened: Log,
        high_watermark: int,
        *,
        synced_only: bool,
        min_in_sync_replicas: int,
    ) -> None:
        self.topic = opened.topic
        self.topic_id = opened.topic_id
        self.index = opened.partition
        self.is_internal = opened.topic in INTERNAL_TOPICS
        self.log = opened
        self.is_synced_only = synced_only
        self.replica = Replica(
            world.node_id,
            CommitRule.IN_SYNC,
            end=opened.end,
            synced_end=opened.synced_end,
            high_watermark=max(high_watermark, opened.start),
            synced_only=synced_only,
            min_in_sync_replicas=min_in_sync_replicas,
            log=StoredLog(opened),
            lag_time_max=world.lag_time_max,
            lease=world.lease,
            rules=world.rules,
        )
        self.offline_reason: str | None = None
        self.offline_code = ErrorCode.KAFKA_STORAGE_ERROR
        self.offline_epoch = NO_EPOCH
        """The last leader epoch in which it can have told anybody where its log ends."""
        self.fetch_waiters: dict[Callable[[], None], None] = {}
        """Consumers that wait for a commit."""
        self.watchers: dict[FollowerNews, tuple[str | bytes, int]] = {}
        """The sessions of followers, which are told of all that they have to hear of."""
        self.throttled_followers = self.throttled_following = NOBODY
        """The brokers to whom a leader sends, and those that fetch, at no more than the throttled rate."""
        self.on_synced: Callable[[], None] | None = None
        """Whoever fetches for this follower: its next request waits for the sync (R25)."""
        self._world = world
        self._waiters: list[Waiting] = []
        """By their offsets, which nearly always come in order."""
        self._led_since = LONG_AGO
        self._on_progress = self._wake_fetches  # one bound method each, so that a turn calls it once
        self._on_append = self._wake_replicas

    def __str__(self) -> str:
        return f"{self.topic}-{self.index}"

    @property
    def is_offline(self) -> bool:
        """Whether `go_offline` was called. Asked anew after every call: it may have been during that."""
        return self.offline_reason is not None

    # ------------------------------------------------------------------ leadership

    def take_role(self, agreed: "AgreedPartition", brokers: "Mapping[int, Broker]", minimum: int) -> None:
        """Lead or follow as the committed metadata says (R8, C25: never from local memory).

        `minimum` is min.insync.replicas of the same image (R23).
        """
        if self.watchers:
            self._world.turn.soon(self._on_append)
        sets = agreed.replicas, agreed.in_sync_replicas
        epochs = agreed.leader_epoch, agreed.partition_epoch
        if agreed.leader == self._world.node_id:
            now = self._world.clock.now()
            if agreed.leader_epoch != self.replica.leader_epoch:
                self._led_since = now
            self._handle(LeadershipGranted(*epochs, *sets, brokers, now, agreed.whole_logs_synced, minimum))
        else:
            self._handle(FollowershipGranted(agreed.leader, *epochs, *sets))

    def brokers_changed(self, brokers: "Mapping[int, Broker]") -> None:
        """Brokers registered, were fenced or unfenced."""
        self._handle(BrokersChanged(brokers))

    def time_passed(self, now: float) -> None:
        """Look after laggards and proposals."""
        self._handle(TimePassed(now))

    def in_sync_answered(self, answer: InSyncAnswered) -> None:
        """The controller answered a proposal."""
        self._handle(answer)

    def _handle(self, event: Event) -> None:
        self._carry_out(self.replica.handle(event))

    def configure(self, *, synced_only: bool, min_in_sync_replicas: int) -> None:
        """Take changed topic settings at once (N13)."""
        if synced_only != self.is_synced_only:
            self.is_synced_only = synced_only
            self._handle(DurabilityChanged(synced_only))
            if synced_only:
                self._world.commits.dirty(self)
        if min_in_sync_replicas != self.replica.min_in_sync_replicas:
            self._handle(MinimumChanged(min_in_sync_replicas))

    def throttle(self, when_leading: Sequence[str], when_following: Sequence[str]) -> None:
        """Take a topic's lists of throttled replicas."""
        self.throttled_followers = throttled_brokers(when_leading, self.index)
        self.throttled_following = throttled_brokers(when_following, self.index)

    def _carry_out(self, effects: Sequence[Effect], fetched: memoryview | None = None) -> None:
        """Do what the machine asks, in order; `fetched` holds the records of the answer it is asked about."""
        for effect in effects:
            match effect:
                case HighWatermarkMoved():
                    self._committed()
                case StartEpoch(epoch, start):
                    self.log.epochs.assign(epoch, start)
                case ProposeInSync():
                    self._world.propose(self, effect)
                case AppendFetched(leader_epoch):
                    self._append_fetched(fetched, leader_epoch)
                case TruncateTo(offset) | RestartLogAt(offset):
                    self._truncate(offset, restart=isinstance(effect, RestartLogAt))
                case RememberHorizon(horizon):
                    self.remember_horizon(horizon)
                case AdvanceStart(offset):
                    self.log.advance_start(min(offset, self.log.end))
                case FailWaiting(error):
                    self._fail_waiting(error)
                case ListAgain():
                    pass  # the fetcher compares what it listed with what `next_fetch` says
                case _:
                    raise AssertionError(f"an in-sync replica does not ask for {effect}")

    def check_leader(self, current_leader_epoch: int = -1) -> None:
        """Refuse what only a leader may answer, and requests from another epoch (R2)."""
        self.check_replica(current_leader_epoch)
        if not self.replica.is_leader:
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def check_replica(self, current_leader_epoch: int = -1) -> None:
        """Refuse requests from another epoch, and all while the log can't be served: leader or follower alike."""
        if self.offline_reason is not None:
            raise ApiError(self.offline_code, self.offline_reason)
        if current_leader_epoch >= 0:
            if current_leader_epoch < self.replica.leader_epoch:
                raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
            if current_leader_epoch > self.replica.leader_epoch:
                raise ApiError(ErrorCode.UNKNOWN_LEADER_EPOCH)

    # ------------------------------------------------------------------ writing

    def append(self, records: Records, acks: int, now_ms: int, *, internal: bool = False) -> Appended:
        """Append a client's batch. What it takes to be committed begins before this returns."""
        if self.is_internal and not internal:
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"{self.topic} is written by its coordinators only")
        replica = self.replica
        if self.offline_reason is not None or not replica.is_leader:
            self.check_leader()
        if acks == -1 and not replica.has_enough_in_sync:
            raise ApiError(ErrorCode.NOT_ENOUGH_REPLICAS)
        world = self._world
        if replica.lease is not UNLIMITED and not replica.may_append(world.clock.now(), acks_all=acks == -1):
            raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, "the lease has ended: the controller is out of reach")
        if not world.space.accepts_records:
            raise ApiError(ErrorCode.KAFKA_STORAGE_ERROR, world.space.reason)
        opened = self.log
        try:
            appended = opened.append_as_leader(records, replica.leader_epoch, now_ms)
        except StorageError as error:
            raise self._refused_by_disk(error) from error
        except ApiError as error:
            if error.code is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER and self._awaits_earlier(records):
                raise ApiError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"not yet: {error.message}") from None
            raise
        if not appended.duplicate:
            self._appended()
        return appended

    def append_together(self, batches: list[Records], first: int, now_ms: int) -> list[Appended]:
        """Append clients' batches, from the `first` on, as far as one write can take them: each as `append` would with
        any acks. None of them where that might refuse one; what is left needs `append`, which says why."""
        replica, world = self.replica, self._world
        if (
            self.is_internal
            or self.offline_reason is not None
            or not (replica.is_leader and replica.has_enough_in_sync)
            or (replica.lease is not UNLIMITED and not replica.may_append(world.clock.now(), acks_all=False))
            or not world.space.accepts_records
        ):
            return []
        appended = self.log.append_run(batches, first, replica.leader_epoch, now_ms)
        if appended:
            self._appended()
        return appended

    def _appended(self) -> None:
        """The log has grown: begin what it takes to commit that."""
        opened, world = self.log, self._world
        if self.replica.log_advanced(opened.end, opened.synced_end):
            self._committed()
        if self.watchers:
            world.turn.after_answers(self._on_append)  # what comes in until then goes with it
        if self.is_synced_only or opened.needs_sync:
            world.commits.dirty(self)

    def _awaits_earlier(self, records: Records) -> bool:
        """Whether a batch that came too early may follow on others that their producer sends again, because the former
        leader did not acknowledge them.

        librdkafka sends again over one connection what failed on another, and now and then what follows overtakes it.
        Told that this is out of order, it begins another producer epoch, and writes twice whatever it had under way to
        other partitions (K2). So a new leader says for a moment that it can't take it yet.
        """
        if self._world.clock.now() - self._led_since >= EARLIER_BATCHES_AWAITED_SECONDS:
            return False
        last_offset = self.log.producers.last_before_gap(read_header(records))
        return last_offset is not None and self.log.epochs.epoch_at(last_offset) < self.replica.leader_epoch

    def _refused_by_disk(self, error: StorageError) -> ApiError:
        if isinstance(error, DiskFullError):
            self._world.space.write_failed(OSError(ENOSPC, str(error)))
        else:
            self._world.disk_failed(error)
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))

    def synced(self) -> None:
        """A group commit reached this log."""
        if self.replica.log_advanced(self.log.end, self.log.synced_end):
            self._committed()
        if self.on_synced is not None:
            self.on_synced()

    def must_wait(self, appended: Appended) -> bool:
        """Whether acks=all can't be answered yet; a duplicate waits exactly like the original (R11)."""
        if appended.duplicate and not self._world.rules.r11_duplicates_park:
            return False
        return self.replica.high_watermark <= appended.last_offset

    def wait_for(self, offset: int, waiter: CommitWaiter, number: int) -> None:
        """Tell the waiter when everything below `offset` is committed."""
        waiters = self._waiters
        waiting = Waiting(offset, waiter, number)
        if not waiters or waiters[-1].offset <= offset:
            waiters.append(waiting)
        else:  # a duplicate, which may wait for less
            waiters.insert(next(at for at, other in enumerate(waiters) if other.offset > offset), waiting)

    def _committed(self) -> None:
        """The high watermark moved: answer who waited for it."""
        high_watermark = self.replica.high_watermark
        waiters = self._waiters
        if waiters and waiters[0].offset <= high_watermark:
            count = 1
            while count < len(waiters) and waiters[count].offset <= high_watermark:
                count += 1
            ready = waiters[:count]
            del waiters[:count]
            told = 0
            try:
                for waiting in ready:
                    told += 1
                    waiting.waiter.committed(waiting.number)
            finally:
                if told < count:  # a bug in one answer: the others get theirs with the next commit
                    waiters[:0] = ready[told:]
        for news, key in self.watchers.items():
            news.keys[key] = None
        if self.fetch_waiters:
            self._world.turn.after_answers(self._on_progress)

    def _wake_fetches(self) -> None:
        for waiter in list(self.fetch_waiters):
            waiter()

    def go_offline(self, reason: str, code: ErrorCode = ErrorCode.KAFKA_STORAGE_ERROR) -> None:
        """Stop for good in this process life: the disk failed, or the topic is gone."""
        if self.offline_reason is None:
            self.offline_epoch = self.replica.leader_epoch
        self.offline_reason = reason
        self.offline_code = code
        self._fail_waiting(code)
        if self.fetch_waiters:
            self._world.turn.soon(self._on_progress)
        if self.watchers:
            self._world.turn.soon(self._on_append)

    def lease_ended(self) -> None:
        """C13: a leader that may not write any more keeps nobody waiting who could ask the next one."""
        if self._waiters and self.replica.is_leader and not self.replica.may_append(self._world.clock.now()):
            self._fail_waiting(ErrorCode.NOT_LEADER_OR_FOLLOWER)

    def _fail_waiting(self, code: ErrorCode) -> None:
        waiters, self._waiters = self._waiters, []
        for waiting in waiters:
            waiting.waiter.failed(waiting.number, code)

    # ------------------------------------------------------------------ replication

    def follower_fetched(
        self,
        replica_id: int,
        broker_epoch: int,
        leader_epoch: int,
        fetch_offset: int,
        last_fetched_epoch: int,
        log_start: int,
        synced_session: bool,
        tombstone_horizon: int = NEVER_COMPACTED,
    ) -> FetchVerdict:
        """Judge and credit a follower's Fetch, once per arrival; what it commits is answered before this returns."""
        if self.offline_reason is not None:
            return FetchVerdict(self.offline_code)
        verdict = self.replica.on_follower_fetch(
            replica_id, broker_epoch, leader_epoch, fetch_offset, last_fetched_epoch, log_start,
            self._world.clock.now(), synced_session, tombstone_horizon,
        )  # fmt: skip
        self._carry_out(verdict.effects)
        return verdict

    def fetch_answered(self, answer: FetchAnswered, records: memoryview | None) -> None:
        """The leader answered this follower; `records` dies when this returns."""
        if self.offline_reason is not None:
            return
        end = self.log.end
        try:
            self._carry_out(self.replica.handle(answer), records)
        except StorageError as error:
            self._follower_failed(error)
        if answer.has_records and answer.diverging is None and self.log.end == end and not self.is_offline:
            # A full disk, or records that can't follow: asked for again, and not at once, which would never end.
            refused = answer._replace(error=ErrorCode.KAFKA_STORAGE_ERROR, has_records=False)
            self._carry_out(self.replica.handle(refused))

    def _append_fetched(self, records: memoryview | None, leader_epoch: int) -> None:
        """R21: byte for byte, after the checks. What fails them is asked for again, later."""
        opened = self.log
        if records is None or not self._world.space.accepts_records:
            return
        if opened.has_gaps:
            self._world.directory.store_horizon(TopicPartition(self.topic, self.index))
        try:
            opened.append_as_follower(records, leader_epoch, self._world.clock.wall_ms())
        except ApiError as error:
            log.error("%s: the leader sent what can't follow: %s", self, error)
            return
        if self.replica.log_advanced(opened.end, opened.synced_end):
            self._committed()
        if self.is_synced_only or opened.needs_sync:
            self._world.commits.dirty(self)

    def _truncate(self, offset: int, *, restart: bool) -> None:
        """R17: lower every promise first, durably; R21: nobody goes on reading from the cut region."""
        opened, world = self.log, self._world
        lowered = 0 if restart else opened.cut_point(offset)
        key = TopicPartition(self.topic, self.index)
        world.directory.lower(key, self.topic_id, opened.truncation_generation + 1, lowered)
        world.cut_readers()
        log.info("%s: cut from %d to %d, as its leader's epochs say", self, opened.end, offset)
        if restart:
            opened.truncate_fully(offset)
            world.directory.remember_start(key, offset)
        else:
            opened.truncate(offset, world.clock.wall_ms())
        self._handle(LogTruncated(opened.end, opened.synced_end))

    def remember_horizon(self, horizon: int) -> None:
        """R20: tombstones below may be missing here, and offsets too; durable before a record comes that tells."""
        self._world.directory.remember_horizon(TopicPartition(self.topic, self.index), horizon)
        self.log.set_horizon(horizon)

    def mark_compacted(self) -> None:
        """R21: the topic is compacted, so that offsets may be missing from now on, even when it no longer is."""
        if self.log.settings.compact_policy and self.log.tombstone_horizon == NEVER_COMPACTED:
            # On disk with the next checkpoints: nothing is missing yet, and a topic may have many partitions.
            self._world.directory.remember(tombstone_horizons={TopicPartition(self.topic, self.index): 0})
            self.log.set_horizon(0)

    def _follower_failed(self, error: StorageError) -> None:
        if isinstance(error, CorruptionError):
            self.quarantine(error)
        else:
            self._refused_by_disk(error)

    def _wake_replicas(self) -> None:
        for news, key in list(self.watchers.items()):
            news.appended(key)

    # ------------------------------------------------------------------ reading

    @property
    def high_watermark(self) -> int:
        """Below it everything is committed."""
        return self.replica.high_watermark

    @property
    def last_stable_offset(self) -> int:
        """Below it every transaction has ended."""
        return self.log.last_stable_offset(self.replica.high_watermark)

    def read(self, offset: int, max_bytes: int, bound: int, *, at_least_one: bool) -> Read | None:
        """Batches from `offset` to below `bound`. R13: in the log but not below it is empty, not an error."""
        if not self._world.rules.r13_empty_above_high_watermark and offset > bound:
            raise ApiError(ErrorCode.OFFSET_OUT_OF_RANGE)
        try:
            return self.log.read(offset, max_bytes, upper_bound=bound, min_one_batch=at_least_one)
        except (CorruptionError, OSError) as error:
            raise self.quarantine(error) from error

    def quarantine(self, error: CorruptionError | OSError) -> ApiError:
        """Stored bytes are bad or can't be read: nobody gets them, nothing is deleted, an operator is told (R17)."""
        if isinstance(error, OSError) and error.errno in NO_DESCRIPTORS:  # which says nothing about the bytes
            return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        log.error("%s is offline, nothing of it is deleted: %s", self, error)
        self.go_offline(str(error))
        self._world.quarantined()
        return ApiError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
