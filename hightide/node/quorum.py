"""This node's seat in the metadata quorum: carries out what the pure `QuorumReplica` asks, and tells it what happened.

Votes go to disk by the syncer's threads, messages to the other voters by `peers`, records into the log. What the quorum
commits is `MetadataLog`'s business: it hears of it through the four calls of `Host`.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol

from hightide.errors import ApiError, ErrorCode, ProtocolError, StorageError
from hightide.node import quorum_messages as messages
from hightide.node.commits import GroupCommit
from hightide.node.log_view import QuorumLogView
from hightide.node.peers import Peers
from hightide.node.ports import Clock, Syncer, Timer
from hightide.node.quorum_state import QuorumState, load_quorum_state, store_quorum_state
from hightide.replication.effects import AppendFetched, AppendLeaderChange, HighWatermarkMoved, StartEpoch, TruncateTo
from hightide.replication.events import LogAdvanced, LogTruncated, TimePassed
from hightide.replication.quorum import QuorumReplica, QuorumTimeouts
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
    QuorumEffect,
    SendBeginEpoch,
    SendEndEpoch,
    SendVote,
    StopFatally,
)
from hightide.replication.quorum_events import (
    EpochAnswered,
    QuorumEvent,
    QuorumFetchAnswered,
    QuorumFetchFailed,
    ResignationRequested,
    Started,
    VotePersisted,
)
from hightide.replication.snapshots import EpochEnd, SnapshotId
from hightide.replication.voters import VoterSet
from hightide.rules import Rules
from hightide.storage.directory import LogDirectory
from hightide.storage.log import Log
from hightide.types import METADATA_TOPIC, METADATA_TOPIC_ID, TopicPartition
from hightide.wire.message import ApiMessage
from hightide.wire.messages.begin_quorum_epoch import BeginQuorumEpochResponse
from hightide.wire.messages.end_quorum_epoch import EndQuorumEpochResponse
from hightide.wire.messages.fetch import FetchResponse
from hightide.wire.messages.vote import VoteResponse

log = logging.getLogger("hightide.quorum")

VOTES, FETCHES = "votes", "quorum"  # purposes of connections: an election never waits behind a fetch


class Host(Protocol):
    """Who owns the metadata."""

    def committed(self) -> None:
        """The high watermark moved."""

    def led(self, epoch: int) -> None:
        """This node is the active controller now."""

    def lost(self) -> None:
        """It is no more."""

    def append_leader_change(self, epoch: int, voters: tuple[int, ...]) -> None:
        """Append the first record of the new epoch."""


class Snapshots(Protocol):
    """Who keeps the snapshots."""

    def load(self, effect: LoadSnapshot) -> None:
        """Fetch one from the leader, then tell SnapshotDownloaded or SnapshotFailed."""

    def install(self, effect: InstallSnapshot) -> None:
        """Let log and metadata begin anew on the one that was loaded, then tell LogTruncated."""


class _VoteWrite:
    """A vote on its way to disk, as something a Syncer takes."""

    def __init__(self, directory: LogDirectory, path: str, state: QuorumState, rules: Rules) -> None:
        self._directory = directory
        self._path = path
        self._state = state
        self._rules = rules

    def sync(self) -> None:
        """Write it, file, rename and directory."""
        self._directory.guarded(lambda: store_quorum_state(self._directory.files, self._path, self._state, self._rules))


class Quorum:
    """Drives one `QuorumReplica`. `commits` syncs the log together with the data. `snapshots` is set afterwards."""

    snapshots: Snapshots

    def __init__(
        self,
        opened: Log,
        host: Host,
        *,
        node_id: int,
        voters: VoterSet,
        directory: LogDirectory,
        high_watermark: int,
        snapshot: SnapshotId | None,
        clock: Clock,
        syncer: Syncer,
        commits: GroupCommit,
        peers: Peers,
        draw: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        failed: Callable[[Exception], None],
        timeouts: QuorumTimeouts,
        rules: Rules,
    ) -> None:
        self.log = opened
        self._host = host
        self._directory = directory
        self._clock = clock
        self._syncer = syncer
        self._commits = commits
        self._peers = peers
        self._spawn = spawn
        self._failed = failed
        self._rules = rules
        self._timer: Timer | None = None
        self._is_stopped = False
        self._fetched: memoryview | None = None
        self._leader_waiters: list[asyncio.Future[None]] = []
        self.machine = QuorumReplica(
            node_id,
            voters,
            QuorumLogView(opened),
            draw,
            timeouts=timeouts,
            directory_id=directory.identity.directory_id,
            high_watermark=high_watermark,
            snapshot=snapshot,
            rules=rules,
        )

    # ------------------------------------------------------------------ life

    def start(self) -> None:
        """Take the seat with what the vote file holds."""
        state = load_quorum_state(self._directory.files, self.log.directory)
        self.tell(Started(state.epoch, state.voted, self._clock.now(), doubtful=self.log.doubtful))

    def resign(self) -> None:
        """The node is about to stop: let somebody else lead at once."""
        self.tell(ResignationRequested(self._clock.now()))

    def stop(self) -> None:
        """Act no more."""
        self._is_stopped = True
        if self._timer is not None:
            self._timer.cancel()

    @property
    def leader(self) -> int:
        """The active controller as far as this node knows; -1 for nobody."""
        return self.machine.leader

    async def leader_changed(self, timeout: float) -> None:
        """Return when another leader is known, or after a while."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._leader_waiters.append(future)
        timer = self._clock.call_later(timeout, _resolve, future)
        try:
            await future
        finally:
            timer.cancel()

    def advanced(self) -> None:
        """The log was appended to or synced."""
        self.tell(LogAdvanced(self.log.end, self.log.synced_end))

    # ------------------------------------------------------------------ events and effects

    def tell(self, event: QuorumEvent) -> None:
        """One event; what the machine asks for is carried out before this returns."""
        if self._is_stopped:
            return
        for effect in self.machine.handle(event):
            try:
                self._carry_out(effect)
            except (OSError, StorageError) as error:
                self._fail(error)
                return
        self._arm()

    def _arm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline = self.machine.next_deadline
        if deadline is not None and not self._is_stopped:
            self._timer = self._clock.call_later(max(0.0, deadline - self._clock.now()), self._time_passed)

    def _time_passed(self) -> None:
        self._timer = None
        self.tell(TimePassed(self._clock.now()))

    def _carry_out(self, effect: QuorumEffect) -> None:
        if self._is_stopped:  # by an effect before this one
            return
        match effect:
            case PersistVote(epoch, voted, leader):
                self._persist(QuorumState(epoch, leader, voted))
            case SendVote() | SendBeginEpoch() | SendEndEpoch():
                self._spawn(self._send(effect))
            case AnswerVote() | AnswerBeginEpoch() | AnswerEndEpoch() | AnswerFetch() | AnswerSnapshotFetch():
                _answer(effect.request, effect)
            case FetchFrom():
                self._spawn(self._fetch(effect))
            case AppendFetched(epoch):
                self._append(epoch)
            case TruncateTo(offset):
                self._truncate(offset)
            case LoadSnapshot():
                self.snapshots.load(effect)
            case InstallSnapshot():
                self.snapshots.install(effect)
            case StartEpoch(epoch, start):
                self.log.epochs.assign(epoch, start)
            case AppendLeaderChange(epoch, voters):
                self._host.append_leader_change(epoch, voters)
            case HighWatermarkMoved():
                self._host.committed()
            case LeaderChanged(leader, epoch):
                log.info("the controller is %s in epoch %d", leader if leader >= 0 else "unknown", epoch)
                waiters, self._leader_waiters = self._leader_waiters, []
                for waiter in waiters:
                    _resolve(waiter)
            case BecameLeader(epoch, all_voters):
                if all_voters:
                    log.warning("elected by a round of doubtful voters: committed metadata may be lost")
                self._host.led(epoch)
            case LostLeadership():
                self._host.lost()
            case EndDoubt():
                log.info("the metadata log holds everything committed again")
            case StopFatally(reason):
                self._fail(StorageError(reason))

    def _fail(self, error: Exception) -> None:
        """R10: a voter whose disk failed says and does nothing more; the process ends."""
        self.stop()
        self._failed(error)

    def _persist(self, state: QuorumState) -> None:
        write = _VoteWrite(self._directory, self.log.directory, state, self._rules)

        def done(error: Exception | None) -> None:
            if error is not None:
                self._fail(error)
            else:
                self.tell(VotePersisted(state.epoch, state.voted, self._clock.now()))

        self._syncer.sync([write], done)

    async def _send(self, effect: SendVote | SendBeginEpoch | SendEndEpoch) -> None:
        """Send and tell the machine of the answer; no answer is no event: its time-outs cover that."""
        machine, cluster_id = self.machine, self._directory.identity.cluster_id
        try:
            if isinstance(effect, SendVote):
                request = messages.vote_request(effect, machine.node_id, machine.directory_id, cluster_id)
                reply = await self._peers.call(effect.to, VOTES, request, VoteResponse)
                self.tell(messages.vote_answered(reply, effect, self._clock.now()))
                return
            told: ApiMessage
            answer: type[BeginQuorumEpochResponse] | type[EndQuorumEpochResponse]
            if isinstance(effect, SendBeginEpoch):
                told, answer = messages.begin_request(effect, machine.node_id, cluster_id), BeginQuorumEpochResponse
            else:
                told, answer = messages.end_request(effect, machine.node_id, cluster_id), EndQuorumEpochResponse
            believed = messages.leader_and_epoch(await self._peers.call(effect.to, VOTES, told, answer))
            self.tell(EpochAnswered(effect.to, *believed, self._clock.now()))
        except (ApiError, ProtocolError) as error:
            log.debug("voter %d did not answer: %s", effect.to, error)

    # ------------------------------------------------------------------ following

    async def _fetch(self, effect: FetchFrom) -> None:
        machine = self.machine
        request = messages.fetch_request(
            effect, machine.node_id, machine.directory_id, self._directory.identity.cluster_id
        )
        timeout = messages.FETCH_WAIT_MS / 1000 + machine.timeouts.fetch
        try:
            reply = await self._peers.call(effect.to, FETCHES, request, FetchResponse, timeout=timeout)
            part = reply.responses[0].partitions[0]
        except (ApiError, ProtocolError, IndexError) as error:
            refused = "connection refused" in str(error)
            self.tell(QuorumFetchFailed(effect, self._clock.now(), refused=refused))
            return
        diverging = part.diverging_epoch
        has_diverged = diverging.epoch >= 0 or diverging.end_offset >= 0
        snapshot = SnapshotId(part.snapshot_id.end_offset, part.snapshot_id.epoch)
        self._fetched = memoryview(bytearray(part.records)) if part.records else None
        try:
            self.tell(
                QuorumFetchAnswered(
                    effect,
                    part.current_leader.leader_id,
                    part.current_leader.leader_epoch,
                    self._clock.now(),
                    ErrorCode(part.error_code),
                    part.high_watermark,
                    EpochEnd(diverging.epoch, diverging.end_offset) if has_diverged else None,
                    snapshot if snapshot.end >= 0 else None,
                    self._fetched is not None,
                )
            )
        finally:
            self._fetched = None

    def _append(self, epoch: int) -> None:
        if self._fetched is None:
            return
        try:
            fetched, now_ms = self._fetched, self._clock.wall_ms()
            self._directory.guarded(lambda: self.log.append_as_follower(fetched, epoch, now_ms))
        except ApiError as error:
            log.error("the leader sent metadata that can't follow: %s", error)
            return
        self._commits.dirty(self._host_member())
        self.advanced()

    def _host_member(self) -> Any:
        return self._host

    def _truncate(self, offset: int) -> None:
        opened = self.log
        log.info("the metadata log is cut from %d to %d: its tail was never committed", opened.end, offset)
        key = TopicPartition(METADATA_TOPIC, 0)
        self._directory.lower(key, METADATA_TOPIC_ID, opened.truncation_generation + 1, offset)
        opened.truncate(offset, self._clock.wall_ms())
        self.tell(LogTruncated(opened.end, opened.synced_end))


def _answer(request: object, effect: QuorumEffect) -> None:
    """The handler of a request waits for its verdict in a future."""
    assert isinstance(request, asyncio.Future)
    if not request.done():
        request.set_result(effect)


def _resolve(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)
