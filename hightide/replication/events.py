"""What can happen to a replica, in the past tense. A machine learns of the world in no other way."""

from typing import NamedTuple


class LeadershipGranted(NamedTuple):
    """The controller's committed metadata made this replica the leader (in-sync rule)."""

    leader_epoch: int
    partition_epoch: int
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


class ElectionWon(NamedTuple):
    """A majority of voters granted this replica their votes, durably, for this epoch (majority rule)."""

    epoch: int
    voters: tuple[int, ...]


class LogAdvanced(NamedTuple):
    """The log's written or synced end moved up."""

    end: int
    synced_end: int


class MinimumChanged(NamedTuple):
    """`min.insync.replicas` was changed in the committed metadata (R23)."""

    min_in_sync_replicas: int


class DurabilityChanged(NamedTuple):
    """`hightide.durability` was changed in the committed metadata."""

    synced_only: bool


Event = LeadershipGranted | ElectionWon | LogAdvanced | MinimumChanged | DurabilityChanged
