"""One simulated process of a quorum: carries out what its machine asks for, on a disk that outlives it.

What survives what: `kill` keeps every written byte, `lose_power` only what was synced and a chance part of the rest;
a vote that was being stored is there or not. Everything of the process (the machine, parked fetches) is gone with it.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

from hightide.replication.effects import AppendFetched, AppendLeaderChange, HighWatermarkMoved, StartEpoch, TruncateTo
from hightide.replication.events import LogAdvanced, LogTruncated, TimePassed
from hightide.replication.quorum import QuorumReplica, Role
from hightide.replication.quorum_effects import (
    AnswerBeginEpoch,
    AnswerEndEpoch,
    AnswerFetch,
    AnswerSnapshotFetch,
    AnswerVote,
    BecameLeader,
    EndDoubt,
    FetchFrom,
    InstallSnapshot,
    LeaderChanged,
    LoadSnapshot,
    LostLeadership,
    PersistVote,
    SendBeginEpoch,
    SendEndEpoch,
    SendVote,
    StopFatally,
)
from hightide.replication.quorum_events import (
    EpochAnswered,
    LeaderAnnounced,
    LeaderResigned,
    QuorumEvent,
    QuorumFetchAnswered,
    QuorumFetched,
    QuorumFetchFailed,
    SnapshotTaken,
    Started,
    VoteAnswered,
    VotePersisted,
    VoteRequested,
)
from hightide.replication.snapshots import SnapshotId
from hightide.sim.level0.kernel import InvariantError
from hightide.sim.level0.raft_downloads import Download, answer_piece
from hightide.sim.level0.raft_log import LEADER_CHANGE, Batch, SimulatedLog
from hightide.sim.level0.raft_serving import Asked, Serving
from hightide.types import NO_BROKER

if TYPE_CHECKING:
    from hightide.sim.level0.raft_world import RaftWorld

REQUEST_TIMEOUT_SECONDS = 1.0
BATCHES_PER_FETCH = 20
VOTE_SYNCS = 3  # the file, its rename, the directory
LATER = float("inf")
EVENT_CODES = {kind: number for number, kind in enumerate(get_args(QuorumEvent))}


class RaftNode:
    """A process and its disk. `machine` is None while the process is not running; `life` counts its starts."""

    def __init__(self, world: "RaftWorld", node_id: int, directory_id: bytes) -> None:
        self.world = world
        self.id = node_id
        self.machine: QuorumReplica | None = None
        self.life = 0
        self.batches_per_fetch = BATCHES_PER_FETCH
        self.paused_until = 0.0
        # The disk.
        self.directory_id = directory_id
        self.log = SimulatedLog()
        self.snapshot: SnapshotId | None = None
        self.stored_epoch = 0
        self.stored_vote = NO_BROKER
        self.is_doubtful = False
        self.checkpointed = 0
        self.reached = 0  # up to where it ever had the log that it has: what it may have acknowledged
        # The process.
        self.serving: Serving
        self.download: Download
        self._saving: PersistVote | None = None
        self._is_syncing = False
        self._timer_at = LATER
        self.fetch_under_way: FetchFrom | None = None
        self._fetch_sent_at = 0.0
        self._fetch_checked_at = LATER
        self._incoming: list[Batch] = []
        self._role = Role.UNATTACHED
        self._high_watermark = 0
        self._log_event: LogAdvanced | LogTruncated | None = None
        self._do: dict[type, Any] = {
            PersistVote: self._persist_vote,
            SendVote: self._send_vote,
            AnswerVote: self._answer_vote,
            SendBeginEpoch: self._send_begin_epoch,
            AnswerBeginEpoch: self._answer_epoch,
            SendEndEpoch: self._send_end_epoch,
            AnswerEndEpoch: self._answer_epoch,
            FetchFrom: self._send_fetch,
            AnswerFetch: lambda effect: self.serving.answer(effect),
            AppendFetched: self._append_fetched,
            TruncateTo: self._truncate_to,
            LoadSnapshot: lambda effect: self.download.begin(effect),
            InstallSnapshot: self._install_snapshot,
            AnswerSnapshotFetch: lambda effect: answer_piece(self, effect),
            StartEpoch: self._ignore,
            AppendLeaderChange: self._append_leader_change,
            HighWatermarkMoved: self._high_watermark_moved,
            LeaderChanged: self._ignore,
            BecameLeader: self._became_leader,
            LostLeadership: lambda _: self.serving.stop_leading(),
            EndDoubt: self._end_doubt,
            StopFatally: self._stop_fatally,
        }

    # ------------------------------------------------------------------ life and death

    def start(self) -> None:
        """A new process on what the disk holds. What is not known to be synced is synced anew (R19)."""
        world = self.world
        self.life += 1
        self._saving = None
        self._is_syncing = False
        self._timer_at = self._fetch_checked_at = LATER
        self.fetch_under_way = None
        self._log_event = None
        self.paused_until = 0.0
        self.machine = QuorumReplica(
            self.id,
            world.voters,
            self.log,
            world.draws.random,
            timeouts=world.timeouts,
            directory_id=self.directory_id,
            high_watermark=self.checkpointed,
            snapshot=self.snapshot,
            rules=world.rules,
        )
        self.serving = Serving(self, self.machine)
        self.download = Download(self)
        self._role = self.machine.role
        self._high_watermark = self.machine.high_watermark
        self.handle(Started(self.stored_epoch, self.stored_vote, world.kernel.now, self.is_doubtful))
        self._sync()

    def kill(self) -> None:
        """SIGKILL: the operating system keeps what was written, and tells whoever is connected."""
        self._end()
        self.world.reset_connections(self)

    def lose_power(self) -> None:
        """The machine went dark: nobody is told anything."""
        self._end()
        self.log.lose_power(self.world.faults)

    def _end(self) -> None:
        if self.machine is None:
            return
        if self._saving is not None and self.world.faults.random() < 0.5:
            self._store(self._saving)
        self.checkpointed = min(self.machine.high_watermark, self.log.synced_end)
        self.machine = None

    # ------------------------------------------------------------------ events and effects

    def handle(self, event: QuorumEvent) -> None:
        """Give the machine an event, do what it asks, and watch."""
        machine = self.machine
        assert machine is not None
        world = self.world
        kernel = world.kernel
        do = self._do
        for effect in machine.handle(event):
            do[type(effect)](effect)
        kernel.trace.note(
            kernel.now, self.id, EVENT_CODES[type(event)], machine.epoch, machine.high_watermark, self.log.end
        )
        if machine.role is not self._role:
            before, self._role = self._role, machine.role
            world.invariants.roles(self, before)
            if kernel.trace.keeps_lines:
                world.say(f"node {self.id} is {machine.role.value} in epoch {machine.epoch}")
        if self._log_event is not None:
            log_event, self._log_event = self._log_event, None
            self.handle(log_event)
        deadline = machine.next_deadline
        if deadline is not None and deadline < self._timer_at:
            self._timer_at = deadline
            kernel.at(deadline, self._timer, self.life)

    def _timer(self, life: int) -> None:
        """The newest deadline counts: a timer that comes too early sets itself again."""
        if life != self.life or self.machine is None:
            return
        now = self.world.kernel.now
        if now < self.paused_until:
            self.world.kernel.at(self.paused_until, self._timer, life)
            return
        self._timer_at = LATER
        deadline = self.machine.next_deadline
        if deadline is not None and deadline <= now:
            self.handle(TimePassed(now))
        elif deadline is not None:
            self._timer_at = deadline
            self.world.kernel.at(deadline, self._timer, life)

    def wake(self, owner: Serving | Download, action: Callable[..., None], *arguments: object) -> None:
        """A timer of something that belongs to one life of the process."""
        if self.machine is None or (owner is not self.serving and owner is not self.download):
            return
        if not self._is_delayed(self.wake, owner, action, *arguments):
            action(*arguments)

    def _ignore(self, _: object) -> None:
        """The level-0 log derives its epoch history from batches; who leads is read from the machine."""

    # ------------------------------------------------------------------ the disk

    def _persist_vote(self, effect: PersistVote) -> None:
        self._saving = effect
        self.world.after_syncs(self, VOTE_SYNCS, self._vote_stored, self.life, effect)

    def _vote_stored(self, life: int, effect: PersistVote) -> None:
        if life != self.life or self.machine is None:
            return
        if self._is_delayed(self._vote_stored, life, effect):
            return
        self._store(effect)
        self._saving = None
        self.handle(VotePersisted(effect.epoch, effect.voted, self.world.kernel.now))

    def _store(self, effect: PersistVote) -> None:
        self.world.invariants.stored(self, effect.epoch, effect.voted)
        self.stored_epoch, self.stored_vote = effect.epoch, effect.voted

    def append(self, value: int, count: int) -> None:
        """What a client asked of a node that believes it leads."""
        machine = self.machine
        assert machine is not None
        end = self.log.end
        self._write([Batch(end, end + count, machine.epoch, value)])
        self._flush_log_event()

    def _append_leader_change(self, effect: AppendLeaderChange) -> None:
        end = self.log.end
        self._write([Batch(end, end + 1, effect.epoch, LEADER_CHANGE)])

    def _append_fetched(self, effect: AppendFetched) -> None:
        """R21: only what follows the own end, and nothing newer than the leader. No leader ever sends anything else."""
        end = self.log.end
        for batch in self._incoming:
            if batch.base != end or batch.epoch > effect.leader_epoch:
                name = "I17" if end == self.log.start else "I19"
                raise InvariantError(name, f"node {self.id} ends at {end} and cannot go on with {batch}")
            end = batch.end
        self._write(self._incoming)

    def _write(self, batches: list[Batch]) -> None:
        self.log.append(batches)
        self.reached = max(self.reached, self.log.end)
        self._log_event = LogAdvanced(self.log.end, self.log.synced_end)
        self._sync()
        if self.serving.parked:
            self.serving.look_again()

    def _flush_log_event(self) -> None:
        if self._log_event is not None:
            event, self._log_event = self._log_event, None
            self.handle(event)

    def _sync(self) -> None:
        if not self._is_syncing and self.log.synced_end < self.log.end:
            self._is_syncing = True
            self.world.after_syncs(self, 1, self._synced, self.life, self.log.end, self.log.generation)

    def _synced(self, life: int, end: int, generation: int) -> None:
        if life != self.life or self.machine is None or self._is_delayed(self._synced, life, end, generation):
            return
        self._is_syncing = False
        if generation == self.log.generation:
            self.log.synced_end = max(self.log.synced_end, end)
            self.handle(LogAdvanced(self.log.end, self.log.synced_end))
        if self.machine is not None:
            self._sync()

    def _is_delayed(self, action: Any, *arguments: Any) -> bool:
        """A stopped process notices nothing until it goes on."""
        if self.world.kernel.now < self.paused_until:
            self.world.kernel.at(self.paused_until, action, *arguments)
            return True
        return False

    def _truncate_to(self, effect: TruncateTo) -> None:
        self.world.invariants.truncated(self, effect.offset)
        self.log.truncate(effect.offset)
        self.reached = min(self.reached, self.log.end)
        self._log_event = LogTruncated(self.log.end, self.log.synced_end)

    # ------------------------------------------------------------------ votes and epochs

    def _send_vote(self, effect: SendVote) -> None:
        to, epoch, last_epoch, end, pre_vote, voter_directory_id, all_voters = effect
        request = Asked(self.id, self.life, pre_vote)
        source, directory_id = self.id, self.directory_id
        self.world.send(
            self, to, None,
            lambda node, now: node.handle(
                VoteRequested(
                    request, source, epoch, last_epoch, end, pre_vote, now,
                    directory_id, voter_directory_id, all_voters,
                )
            ),
        )  # fmt: skip

    def _answer_vote(self, effect: AnswerVote) -> None:
        request, source = effect.request, self.id
        assert isinstance(request, Asked)
        self.world.send(
            self, request.node, request.life,
            lambda node, now: node.handle(
                VoteAnswered(
                    source, effect.leader, effect.epoch, effect.granted, request.about, now,
                    effect.last_epoch, effect.end, effect.doubtful,
                )
            ),
        )  # fmt: skip

    def _send_begin_epoch(self, effect: SendBeginEpoch) -> None:
        request, source = Asked(self.id, self.life), self.id
        to, epoch, directory_id = effect
        self.world.send(
            self, to, None, lambda node, now: node.handle(LeaderAnnounced(request, source, epoch, now, directory_id))
        )

    def _send_end_epoch(self, effect: SendEndEpoch) -> None:
        request, source = Asked(self.id, self.life), self.id
        to, epoch, successors = effect
        self.world.send(
            self, to, None, lambda node, now: node.handle(LeaderResigned(request, source, epoch, successors, now))
        )

    def _answer_epoch(self, effect: AnswerBeginEpoch | AnswerEndEpoch) -> None:
        request, source = effect.request, self.id
        assert isinstance(request, Asked)
        leader, epoch = effect.leader, effect.epoch
        self.world.send(
            self, request.node, request.life,
            lambda node, now: node.handle(EpochAnswered(source, leader, epoch, now)),
        )  # fmt: skip

    def _became_leader(self, effect: BecameLeader) -> None:
        self.world.elected(self, effect.epoch)

    def _end_doubt(self, _: EndDoubt) -> None:
        self.is_doubtful = False
        self.world.doubt_ended(self)

    def _stop_fatally(self, effect: StopFatally) -> None:
        raise InvariantError("I19", f"node {self.id} had to stop: {effect.reason}")

    def _high_watermark_moved(self, effect: HighWatermarkMoved) -> None:
        machine = self.machine
        assert machine is not None
        before, self._high_watermark = self._high_watermark, effect.high_watermark
        if self._high_watermark < before:
            raise InvariantError("I15", f"the high watermark of {self.id} fell from {before} to {self._high_watermark}")
        self.world.invariants.moved(self, before, effect.high_watermark, machine.role is Role.LEADER)
        if self.serving.parked:
            self.serving.look_again()

    # ------------------------------------------------------------------ fetching

    def _send_fetch(self, effect: FetchFrom) -> None:
        machine, now = self.machine, self.world.kernel.now
        assert machine is not None
        self.fetch_under_way, self._fetch_sent_at = effect, now
        if self._fetch_checked_at is LATER:
            self._fetch_checked_at = now + REQUEST_TIMEOUT_SECONDS
            self.world.kernel.at(self._fetch_checked_at, self._check_fetch, self.life)
        _, to, epoch, offset, last_epoch = effect
        source, directory_id = self.id, self.directory_id
        request = Asked(source, self.life, effect, machine.high_watermark)
        self.world.send(
            self, to, None,
            lambda node, now: node.serving.fetched(
                QuorumFetched(request, source, epoch, offset, last_epoch, now, directory_id)
            ),
        )  # fmt: skip

    def _check_fetch(self, life: int) -> None:
        """The request time-out, by one timer that follows the newest fetch."""
        if life != self.life or self.machine is None or self._is_delayed(self._check_fetch, life):
            return
        now = self.world.kernel.now
        self._fetch_checked_at = LATER
        if self.fetch_under_way is None:
            return
        due = self._fetch_sent_at + REQUEST_TIMEOUT_SECONDS
        if now < due:
            self._fetch_checked_at = due
            self.world.kernel.at(due, self._check_fetch, life)
        else:
            fetch, self.fetch_under_way = self.fetch_under_way, None
            self.handle(QuorumFetchFailed(fetch, now))

    def fetch_answered(self, event: QuorumFetchAnswered, batches: list[Batch]) -> None:
        """An answer came with these records."""
        if event.fetch == self.fetch_under_way:
            self.fetch_under_way = None
        self._incoming = batches
        self.handle(event)

    # ------------------------------------------------------------------ snapshots

    def take_snapshot(self, end: int) -> None:
        """Keep the state after `end`, if it may end there, and forget the log below."""
        machine = self.machine
        assert machine is not None
        if end <= self.log.start or end > self.log.synced_end or not machine.may_snapshot(end):
            return
        self.snapshot = SnapshotId(end, self.log.between(end - 1, end)[0].epoch)
        self.handle(SnapshotTaken(self.snapshot))
        self.log.advance_start(end)
        self.checkpointed = max(self.checkpointed, end)
        self.world.invariants.snapshot_at_start(self, self.snapshot)

    def _install_snapshot(self, effect: InstallSnapshot) -> None:
        machine = self.machine
        assert machine is not None
        self.world.invariants.snapshot_installed(self, effect.snapshot, machine.role is Role.LEADER)
        self.snapshot = effect.snapshot
        self.log.restart_at(effect.snapshot.end)
        self.reached = max(self.reached, self.log.end)
        self.checkpointed = effect.snapshot.end
        self._log_event = LogTruncated(self.log.end, self.log.synced_end)
