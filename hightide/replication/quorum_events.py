"""What can happen to a replica of an elected log, in the past tense.

Requests and answers carry the fields of Kafka's Vote (52), BeginQuorumEpoch (53), EndQuorumEpoch (54), Fetch (1) and
FetchSnapshot (59). `request` is the node's own: it comes back with the effect that answers. `now` is in seconds of a
monotonic clock. In an answer `leader` and `epoch` are what the answering node believes (CurrentLeader on the wire).
"""

from typing import NamedTuple

from hightide.errors import ErrorCode
from hightide.replication.events import LogAdvanced, LogTruncated, TimePassed
from hightide.replication.quorum_effects import FetchFrom, LoadSnapshot
from hightide.replication.quorum_progress import NEVER
from hightide.replication.snapshots import EpochEnd, SnapshotId
from hightide.types import NO_BROKER, NO_EPOCH, NO_OFFSET, ZERO_UUID


class Started(NamedTuple):
    """The process began, its log is open, and this is what its vote file holds (epoch 0 when there is none).

    `doubtful`: recovery cut a tail that had valid batches behind it (R17), now or in a life since which no DoubtEnded
    was carried out.
    """

    epoch: int
    voted: int
    now: float
    doubtful: bool = False


class VotePersisted(NamedTuple):
    """The vote of a PersistVote is on stable storage: file, rename and directory."""

    epoch: int
    voted: int
    now: float


class VoteRequested(NamedTuple):
    """A voter asked for this one's vote in `epoch`, or whether it would get it (`pre_vote`: in its current epoch).

    `all_voters`: every voter showed its log to the candidate, and its own is the best of all (R17).
    """

    request: object
    candidate: int
    epoch: int
    last_epoch: int
    end: int
    pre_vote: bool
    now: float
    candidate_directory_id: bytes = ZERO_UUID
    voter_directory_id: bytes = ZERO_UUID
    all_voters: bool = False


class VoteAnswered(NamedTuple):
    """A voter answered; `pre_vote` as in the question. The last three are hightide's own fields, for R17."""

    voter: int
    leader: int
    epoch: int
    granted: bool
    pre_vote: bool
    now: float
    last_epoch: int = NO_EPOCH
    end: int = NO_OFFSET
    doubtful: bool = False


class LeaderAnnounced(NamedTuple):
    """BeginQuorumEpoch: `leader` says that it was elected in `epoch`."""

    request: object
    leader: int
    epoch: int
    now: float
    voter_directory_id: bytes = ZERO_UUID


class LeaderResigned(NamedTuple):
    """EndQuorumEpoch: the leader of `epoch` stopped leading; the first successor holds the most."""

    request: object
    leader: int
    epoch: int
    successors: tuple[int, ...]
    now: float


class EpochAnswered(NamedTuple):
    """A node answered BeginQuorumEpoch or EndQuorumEpoch."""

    peer: int
    leader: int
    epoch: int
    now: float


class QuorumFetched(NamedTuple):
    """A voter or observer asked for records from `offset` on; `epoch` is the leader epoch that it knows.

    `answered_at`: when the answer left that it got before this fetch, in this epoch on this connection (R16).
    """

    request: object
    replica: int
    epoch: int
    offset: int
    last_epoch: int
    now: float
    directory_id: bytes = ZERO_UUID
    answered_at: float = NEVER


class QuorumFetchAnswered(NamedTuple):
    """The answer to `fetch`. Records, if any, are in the node's hands until AppendFetched or the next event."""

    fetch: FetchFrom
    leader: int
    epoch: int
    now: float
    error: ErrorCode = ErrorCode.NONE
    high_watermark: int = -1
    diverging: EpochEnd | None = None
    snapshot: SnapshotId | None = None
    has_records: bool = False


class QuorumFetchFailed(NamedTuple):
    """No usable answer to `fetch`: time-out, lost connection, records that failed their checks.

    `refused`: nobody listens there, so the process is gone and waiting for it is useless.
    """

    fetch: FetchFrom
    now: float
    refused: bool = False


class SnapshotRequested(NamedTuple):
    """A replica asked for a piece of a snapshot (FetchSnapshot)."""

    request: object
    replica: int
    epoch: int
    now: float
    directory_id: bytes = ZERO_UUID


class SnapshotProgressed(NamedTuple):
    """Another piece of the snapshot arrived: the leader is alive."""

    load: LoadSnapshot
    now: float


class SnapshotDownloaded(NamedTuple):
    """The snapshot is complete, checked and on stable storage, beside the log."""

    load: LoadSnapshot
    now: float


class SnapshotFailed(NamedTuple):
    """The snapshot could not be had; `leader` and `epoch` as the answer said, or -1."""

    load: LoadSnapshot
    now: float
    leader: int = NO_BROKER
    epoch: int = NO_EPOCH


class SnapshotTaken(NamedTuple):
    """The node's own snapshot is on stable storage; the log may now be cut up to its end."""

    snapshot: SnapshotId


class ResignationRequested(NamedTuple):
    """The node is about to stop."""

    now: float


QuorumEvent = (
    Started
    | TimePassed
    | VotePersisted
    | VoteRequested
    | VoteAnswered
    | LeaderAnnounced
    | LeaderResigned
    | EpochAnswered
    | QuorumFetched
    | QuorumFetchAnswered
    | QuorumFetchFailed
    | SnapshotRequested
    | SnapshotProgressed
    | SnapshotDownloaded
    | SnapshotFailed
    | SnapshotTaken
    | LogAdvanced
    | LogTruncated
    | ResignationRequested
)
