"""A replica machine on a simulated log: carries out effects at once, parks produces, and tells the truth's watcher."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from hightide.errors import ErrorCode
from hightide.metadata.entities import Broker, Partition
from hightide.replication.effects import (
    AdvanceStart,
    AppendFetched,
    Effect,
    FailWaiting,
    HighWatermarkMoved,
    ListAgain,
    ProposeInSync,
    RestartLogAt,
    StartEpoch,
    TruncateTo,
)
from hightide.replication.events import (
    Event,
    FollowershipGranted,
    InSyncAnswered,
    LeadershipGranted,
    LogTruncated,
)
from hightide.replication.replica import CommitRule, Replica
from hightide.sim.level0.partition_log import PartitionLog, Record
from hightide.sim.level0.partition_truth import Truth

if TYPE_CHECKING:
    from hightide.sim.level0.partition_broker import BrokerProcess

Key = tuple[bytes, int]
Answer = Callable[[ErrorCode], None]
CHANGES_OF_SETS = frozenset((LeadershipGranted, InSyncAnswered))


class HostedReplica:
    """One replica in one life of a broker."""

    __slots__ = ("_process", "_waiting", "broker_id", "highest_told", "key", "life", "log", "machine", "truth")

    def __init__(
        self,
        process: "BrokerProcess",
        key: Key,
        log: PartitionLog,
        truth: Truth,
        *,
        high_watermark: int,
        synced_only: bool,
        minimum: int,
    ) -> None:
        self._process = process
        self.key = key
        self.log = log
        self.truth = truth
        self.broker_id = process.id
        self.life = process.life
        self.machine = Replica(
            process.id,
            CommitRule.IN_SYNC,
            end=log.end,
            synced_end=log.synced_end,
            high_watermark=max(high_watermark, log.start),
            synced_only=synced_only,
            min_in_sync_replicas=minimum,
            log=log,
            lag_time_max=process.world.options.lag_time_max,
            lease=process.lease,
            rules=process.world.rules,
        )
        self.highest_told = -1
        """The leader's high watermark of this leader epoch (I15)."""
        self._waiting: list[tuple[int, Record, Answer]] = []

    # ------------------------------------------------------------------ events and effects

    def handle(self, event: Event, records: Sequence[Record] = ()) -> None:
        """One event; `records` came with it."""
        self.carry_out(self.machine.handle(event), records)
        if type(event) in CHANGES_OF_SETS:
            self.truth.check_sets()

    def take_role(self, agreed: Partition, brokers: Mapping[int, Broker], now: float, minimum: int) -> None:
        """Lead or follow as replayed metadata says; `minimum` is of the same image (R23)."""
        epochs = agreed.leader_epoch, agreed.partition_epoch
        sets = agreed.replicas, agreed.in_sync_replicas
        is_new = agreed.leader_epoch > self.machine.leader_epoch
        if is_new and self._process.world.trace.keeps_lines:
            role = "leads" if agreed.leader == self.broker_id else f"follows {agreed.leader} in"
            self._say(f"{role} epoch {agreed.leader_epoch} from {self.log.end}")
        if agreed.leader == self.broker_id:
            if is_new:
                self.highest_told = -1
                self.truth.led(self, agreed.leader_epoch)
            self.handle(LeadershipGranted(*epochs, *sets, brokers, now, agreed.whole_logs_synced, minimum))
        else:
            self.handle(FollowershipGranted(agreed.leader, *epochs, *sets))

    def carry_out(self, effects: Sequence[Effect], records: Sequence[Record] = ()) -> None:
        """Do what the machine asks, in order."""
        for effect in effects:
            match effect:
                case HighWatermarkMoved():
                    self._moved()
                case AppendFetched(leader_epoch):
                    self._append_fetched(records, leader_epoch)
                case TruncateTo(offset):
                    self._truncate(offset)
                case RestartLogAt(offset):
                    self._restart(offset)
                case StartEpoch(epoch, start):
                    self.log.epochs.assign(epoch, start)
                case ProposeInSync():
                    self._process.propose(self, effect)
                case FailWaiting(error):
                    self._fail_waiting(error)
                case AdvanceStart(offset):
                    self.log.start = offset
                    self.log.epochs.truncate_from_start(offset)
                case ListAgain():
                    pass  # every simulated Fetch lists everything
                case _:
                    raise AssertionError(f"an in-sync replica does not ask for {effect}")

    def _moved(self) -> None:
        machine = self.machine
        high_watermark = machine.high_watermark
        if not machine.is_leader:
            self.truth.follower_moved(self, high_watermark)
            return
        self.truth.leader_moved(self, high_watermark)
        self.highest_told = high_watermark
        if self._waiting:
            waiting, self._waiting = self._waiting, []
            for entry in waiting:
                offset, record, answer = entry
                if offset < high_watermark:
                    self.truth.acknowledge(offset, record)
                    answer(ErrorCode.NONE)
                else:
                    self._waiting.append(entry)
        self._process.wake(self)

    def _append_fetched(self, records: Sequence[Record], leader_epoch: int) -> None:
        log = self.log
        last = log.records[-1][0] if log.end > log.start else -1
        for record in records:
            if not last <= record[0] <= leader_epoch and self._process.world.rules.r21_followers_verify:
                break  # R21: nothing that can't follow is appended
            last = record[0]
            log.append(record)
            self.truth.appended(log, record)
        self.advanced()

    def advanced(self) -> None:
        """The log grew or was synced: what follows from it."""
        if self.machine.log_advanced(self.log.end, self.log.synced_end):
            self._moved()
        if self.machine.synced_only and self.log.synced_end < self.log.end:
            self._process.dirty(self)

    def _say(self, text: str) -> None:
        world = self._process.world
        if world.trace.keeps_lines:
            world.say(f"{self.truth.name}: broker {self.broker_id} {text}")

    def _truncate(self, offset: int) -> None:
        self._say(f"cuts {self.log.end} to {offset}")
        self.truth.truncating(self, offset)
        self.log.truncate(offset)
        self._process.note_truncated(self)
        self.handle(LogTruncated(self.log.end, self.log.synced_end))

    def _restart(self, offset: int) -> None:
        leader = self._process.world.leader_of(self.key)
        if leader is None or offset > leader.log.end:
            return  # whoever said so is gone; the next leader will say it again
        self._say(f"drops its log and begins at {offset}")
        if offset < self.log.end:
            self.truth.truncating(self, max(offset, self.log.start))
        self.log.restart(leader.log, offset)
        self._process.note_truncated(self)
        self.handle(LogTruncated(self.log.end, self.log.synced_end))

    # ------------------------------------------------------------------ clients

    def produce(self, producer: int, sequence: int, acks_all: bool, answer: Answer) -> None:
        """A client's record, as node.partitions takes it: refused, appended, or known already (R11)."""
        machine, process = self.machine, self._process
        if not machine.is_leader:
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif acks_all and not machine.has_enough_in_sync:
            answer(ErrorCode.NOT_ENOUGH_REPLICAS)
        elif not machine.may_append(process.clock(), acks_all=acks_all):
            answer(ErrorCode.NOT_LEADER_OR_FOLLOWER)
        elif sequence <= self.log.last_sequence(producer):
            self._duplicate(producer, sequence, acks_all, answer)
        elif sequence > self.log.last_sequence(producer) + 1:
            answer(ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER)
        else:
            self._append((machine.leader_epoch, producer, sequence), acks_all, answer)

    def _append(self, record: Record, acks_all: bool, answer: Answer) -> None:
        log = self.log
        offset = log.end
        self.truth.written(self, record[0])
        log.append(record)
        self.truth.appended(log, record)
        if acks_all:
            self._waiting.append((offset, record, answer))
        self.advanced()
        self._process.wake(self)
        if not acks_all:
            answer(ErrorCode.NONE)

    def _duplicate(self, producer: int, sequence: int, acks_all: bool, answer: Answer) -> None:
        offset = self.log.offset_of(producer, sequence)
        record = self.log.records[offset]
        if acks_all and self._process.world.rules.r11_duplicates_park and offset >= self.machine.high_watermark:
            self._waiting.append((offset, record, answer))
            return
        if acks_all:
            self.truth.acknowledge(offset, record)
        answer(ErrorCode.NONE)

    def _fail_waiting(self, error: ErrorCode) -> None:
        waiting, self._waiting = self._waiting, []
        for _, _, answer in waiting:
            answer(error)
