"""What brokers tell about their replicas: how a log opened after a restart, and whether it can serve.

These facts are the controller's own: they are told anew by every broker to every controller and never travel in the
metadata log (C6); what follows from them does.
"""

from collections.abc import Mapping
from enum import IntEnum
from typing import NamedTuple, Protocol

from hightide.types import NO_EPOCH, PartitionKey


class ReplicaState(IntEnum):
    """The state of one replica, numbered as in the tagged fields of registration and heartbeat.

    Where several hold, a registration tells the first of: below its high watermark, doubtful, quarantined, unclean.
    """

    INTACT = 0
    UNCLEAN = 1  # the process stopped uncleanly: what was not synced may be gone
    DOUBTFUL = 2  # recovery cut a tail that had valid batches behind it (R17)
    BELOW_HIGH_WATERMARK = 3  # the log ends below its checkpointed high watermark (R8)
    QUARANTINED = 4  # corrupt below what was synced; closed, and to be refetched (R17)
    NOT_READY = 5  # the log could not be opened: disk full, permissions (C8)


class Unready(NamedTuple):
    """Why a replica cannot serve."""

    state: ReplicaState
    reason: str
    leader_epoch: int = NO_EPOCH
    """The last one in which it had a role in this life of its broker."""


class ReplicaFacts(Protocol):
    """What elections ask of it."""

    def unready(self, broker_id: int, key: PartitionKey) -> Unready | None:
        """Why a broker's replica cannot serve; None when nothing is known against it."""

    def log_ends(self, key: PartitionKey) -> Mapping[int, tuple[int, int]]:
        """Broker id → (last epoch, end) of a partition without a leader, as far as it was told."""


def state_of(number: int) -> ReplicaState:
    """The state behind a number; one of a newer version is taken as the worst that can be mended by itself."""
    try:
        return ReplicaState(number)
    except ValueError:
        return ReplicaState.NOT_READY
