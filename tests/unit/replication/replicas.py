"""Machines of three replicas: a log of epochs and offsets without records, brokers as a metadata image knows them."""

from typing import NamedTuple

from hightide.replication.effects import Effect
from hightide.replication.events import BrokerState, LeadershipGranted, LogAdvanced
from hightide.replication.fetching import FetchVerdict
from hightide.replication.replica import CommitRule, Replica
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_EPOCH, NO_OFFSET


class BrokerFact(NamedTuple):
    """A broker of the image."""

    epoch: int
    live: bool = True


BROKERS: dict[int, BrokerState] = {1: BrokerFact(101), 2: BrokerFact(102), 3: BrokerFact(103)}


class EpochLog:
    """A log that knows only which epoch wrote which offsets: (epoch, start), … and an end."""

    def __init__(self, *entries: tuple[int, int], end: int, start: int = 0) -> None:
        self.entries = list(entries)
        self.start = start
        self.end = end
        self.synced_end = end
        self.tombstone_horizon = NO_OFFSET

    @property
    def last_epoch(self) -> int:
        """The epoch of the last record."""
        written = [epoch for epoch, start in self.entries if start < self.end]
        return written[-1] if written and self.end > self.start else NO_EPOCH

    def end_of_epoch(self, epoch: int) -> tuple[int, int]:
        """As `storage.log.Log` answers."""
        if not self.entries or epoch > self.entries[-1][0]:
            return NO_EPOCH, NO_OFFSET
        later = [start for entry, start in self.entries if entry > epoch]
        known = [entry for entry, _ in self.entries if entry <= epoch]
        return (known[-1] if known else epoch), (later[0] if later else self.end)


def replica_on(
    log: EpochLog,
    *,
    high_watermark: int = 0,
    minimum: int = 1,
    synced_only: bool = True,
    rules: Rules = ALL_ON,
) -> Replica:
    """Replica 1 on a log."""
    return Replica(
        1,
        CommitRule.IN_SYNC,
        end=log.end,
        synced_end=log.synced_end,
        high_watermark=high_watermark,
        synced_only=synced_only,
        min_in_sync_replicas=minimum,
        log=log,
        rules=rules,
    )


def granted(
    *, epoch: int = 4, partition_epoch: int = 7, in_sync: tuple[int, ...] = (1, 2, 3), now: float = 0.0
) -> LeadershipGranted:
    """Replica 1 leads 1, 2 and 3."""
    return LeadershipGranted(epoch, partition_epoch, (1, 2, 3), in_sync, BROKERS, now)


def fetch(
    leader: Replica,
    replica: int,
    offset: int,
    *,
    broker_epoch: int | None = None,
    leader_epoch: int = 4,
    last_epoch: int = 3,
    now: float = 0.0,
    synced: bool = True,
) -> FetchVerdict:
    """Replica `replica` fetches from the leader."""
    life = 100 + replica if broker_epoch is None else broker_epoch
    return leader.on_follower_fetch(replica, life, leader_epoch, offset, last_epoch, 0, now, synced)


def advance(machine: Replica, end: int, synced_end: int | None = None) -> list[Effect]:
    """The log grows, and the machine is told."""
    log = machine._log
    assert isinstance(log, EpochLog)
    log.end = end
    log.synced_end = end if synced_end is None else synced_end
    return machine.handle(LogAdvanced(log.end, log.synced_end))
