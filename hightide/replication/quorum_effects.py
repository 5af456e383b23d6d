"""What a replica of an elected log asks of its node, in the imperative, in order.

`request` is what the node handed in with the question. Answers and messages never come out of the machine before the
vote they rest on is durable, so the node carries out everything at once and in order.
"""

from typing import NamedTuple

from hightide.errors import ErrorCode
from hightide.replication.effects import AppendFetched, AppendLeaderChange, HighWatermarkMoved, StartEpoch, TruncateTo
from hightide.replication.snapshots import EpochEnd, SnapshotId
from hightide.types import ZERO_UUID


class PersistVote(NamedTuple):
    """Make the vote durable (fsync, rename, fsync of the directory), then tell VotePersisted. `leader` is a hint.

    Always the last of its list: what rests on it comes out of VotePersisted. One is under way at a time.
    """

    epoch: int
    voted: int
    leader: int


class SendVote(NamedTuple):
    """Ask a voter for its vote, or whether it would give it."""

    to: int
    epoch: int
    last_epoch: int
    end: int
    pre_vote: bool
    voter_directory_id: bytes = ZERO_UUID
    all_voters: bool = False


class AnswerVote(NamedTuple):
    """The last three are hightide's own fields, for R17."""

    request: object
    to: int
    error: ErrorCode
    leader: int
    epoch: int
    granted: bool
    last_epoch: int
    end: int
    doubtful: bool


class SendBeginEpoch(NamedTuple):
    """Tell a voter who leads."""

    to: int
    epoch: int
    voter_directory_id: bytes = ZERO_UUID


class AnswerBeginEpoch(NamedTuple):
    """What this node believes after it was told."""

    request: object
    error: ErrorCode
    leader: int
    epoch: int


class SendEndEpoch(NamedTuple):
    """Tell a voter that this node leads no more, and who should try first."""

    to: int
    epoch: int
    successors: tuple[int, ...]


class AnswerEndEpoch(NamedTuple):
    """What this node believes after it was told."""

    request: object
    error: ErrorCode
    leader: int
    epoch: int


class FetchFrom(NamedTuple):
    """Ask `to` for records from `offset` on. One is under way at a time; the newest `number` counts."""

    number: int
    to: int
    epoch: int
    offset: int
    last_epoch: int


class AnswerFetch(NamedTuple):
    """The leader's verdict on a fetch. Without error, divergence and snapshot: send what the log has from `offset` on.

    A node may keep the answer back while there is nothing to send and the high watermark is what it was.
    """

    request: object
    to: int
    error: ErrorCode
    leader: int
    epoch: int
    offset: int
    high_watermark: int
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None


class LoadSnapshot(NamedTuple):
    """Fetch this snapshot from the leader beside the log; tell SnapshotProgressed, then Downloaded or Failed."""

    leader: int
    epoch: int
    snapshot: SnapshotId


class InstallSnapshot(NamedTuple):
    """Let the log begin anew at the snapshot's end, on the downloaded snapshot; then tell LogTruncated."""

    snapshot: SnapshotId


class AnswerSnapshotFetch(NamedTuple):
    """The leader's verdict on a FetchSnapshot; without error, send the piece."""

    request: object
    to: int
    error: ErrorCode
    leader: int
    epoch: int


class LeaderChanged(NamedTuple):
    """Another leader is known, or none (-1): forward there."""

    leader: int
    epoch: int


class BecameLeader(NamedTuple):
    """This node was elected. `all_voters`: in a round of R17, so committed records may have been lost."""

    epoch: int
    all_voters: bool


class LostLeadership(NamedTuple):
    """This node leads no more: what it appended and did not commit may vanish (R24)."""

    epoch: int


class EndDoubt(NamedTuple):
    """This log holds everything committed again: forget durably that it was doubtful."""


class StopFatally(NamedTuple):
    """Going on would destroy committed records: stop the process and tell people why. Nothing follows."""

    reason: str


QuorumEffect = (
    PersistVote
    | SendVote
    | AnswerVote
    | SendBeginEpoch
    | AnswerBeginEpoch
    | SendEndEpoch
    | AnswerEndEpoch
    | FetchFrom
    | AnswerFetch
    | AppendFetched
    | TruncateTo
    | LoadSnapshot
    | InstallSnapshot
    | AnswerSnapshotFetch
    | StartEpoch
    | AppendLeaderChange
    | HighWatermarkMoved
    | LeaderChanged
    | BecameLeader
    | LostLeadership
    | EndDoubt
    | StopFatally
)
