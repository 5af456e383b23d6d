"""What can happen to a replica, in the past tense. A machine learns of the world in no other way."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from hightide.errors import ErrorCode

NOBODY_KNOWN: "Mapping[int, BrokerState]" = {}


class BrokerState(Protocol):
    """What a leader must know of another broker; the brokers of a metadata image fit."""

    @property
    def epoch(self) -> int:
        """The current life of the broker's process (R8)."""

    @property
    def live(self) -> bool:
        """Neither fenced nor shutting down."""


class LeadershipGranted(NamedTuple):
    """The controller's committed metadata made this replica the leader, or changed its sets (in-sync rule).

    `whole_logs_synced` is false from a switch to `fsync` until the leader's report of R23 is committed.
    `min_in_sync_replicas` is the minimum of the same image, None for the one known before: taken one after the other,
    sets and minimum could commit what neither the old pair nor the new one allows (R23).
    """

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    brokers: Mapping[int, BrokerState] = NOBODY_KNOWN
    now: float = 0.0
    whole_logs_synced: bool = True
    min_in_sync_replicas: int | None = None


class FollowershipGranted(NamedTuple):
    """The controller's committed metadata made another replica the leader, or nobody (-1)."""

    leader: int
    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


class BrokersChanged(NamedTuple):
    """Brokers registered, were fenced, unfenced or began to shut down, as the committed metadata says."""

    brokers: Mapping[int, BrokerState]


class ElectionWon(NamedTuple):
    """A majority of voters granted this replica their votes, durably, for this epoch (majority rule)."""

    epoch: int
    voters: tuple[int, ...]


class LogAdvanced(NamedTuple):
    """The log's written or synced end moved up."""

    end: int
    synced_end: int


class LogTruncated(NamedTuple):
    """A truncation that was asked for was carried out; it cuts whole batches, so the end may lie lower."""

    end: int
    synced_end: int


class FetchAnswered(NamedTuple):
    """The leader answered a follower about this partition.

    `leader_epoch` and `fetch_offset` are those of the request; the rest is the partition's part of the response.
    """

    leader_epoch: int
    fetch_offset: int
    now: float
    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    high_watermark: int = -1
    log_start: int = -1
    has_records: bool = False


class InSyncAnswered(NamedTuple):
    """The controller answered a proposed in-sync set, or nobody did: then `error` says why.

    `leader_epoch` and the rest are those of the answer. Only the image ends a proposal (R6).
    """

    error: ErrorCode
    now: float
    leader_epoch: int = -1
    partition_epoch: int = -1
    in_sync_replicas: tuple[int, ...] = ()


class TimePassed(NamedTuple):
    """It is `now`, in seconds of a monotonic clock."""

    now: float


class MinimumChanged(NamedTuple):
    """`min.insync.replicas` was changed in the committed metadata (R23)."""

    min_in_sync_replicas: int


class DurabilityChanged(NamedTuple):
    """`hightide.durability` was changed in the committed metadata."""

    synced_only: bool


Event = (
    LeadershipGranted
    | FollowershipGranted
    | BrokersChanged
    | ElectionWon
    | LogAdvanced
    | LogTruncated
    | FetchAnswered
    | InSyncAnswered
    | TimePassed
    | MinimumChanged
    | DurabilityChanged
)
