"""K19: what it cost. How long producers could not write, how far consumers fell behind: recorded always, never judged.

Both are what clients saw, in seconds of the history's clock.
"""

from bisect import bisect_left
from collections import defaultdict
from typing import NamedTuple

from hightide.sim.history.operations import Outcome, Poll, Positioned
from hightide.sim.history.recorder import History
from hightide.types import NO_OFFSET, TopicPartition

LONGER_THAN_SECONDS = 0.1
_BEGUN, _ACKNOWLEDGED, _ENDED = range(3)


class Unavailable(NamedTuple):
    """A partition acknowledged nothing, though somebody was sending: from the first send that waited to the next
    acknowledgement (`served`), or to the last attempt of all.

    Pauses between failed attempts count, so it is an upper bound for producers that pause on purpose.
    """

    partition: TopicPartition
    begun_at: float
    ended_at: float
    served: bool

    @property
    def seconds(self) -> float:
        return self.ended_at - self.begun_at

    def __str__(self) -> str:
        end = "" if self.served else " and to the end"
        return f"{self.partition} unavailable for {self.seconds:.3f} s from {self.begun_at:.3f} s{end}"


class Lag(NamedTuple):
    """The worst lag of a client in a partition: when a poll began, how long ago its next record was acknowledged."""

    client: str
    partition: TopicPartition
    at: float
    seconds: float

    def __str__(self) -> str:
        return f"{self.client} at most {self.seconds:.3f} s behind in {self.partition}, at {self.at:.3f} s"


class Measured(NamedTuple):
    """Everything K19 records."""

    unavailable: list[Unavailable]
    lags: list[Lag]

    @property
    def longest_unavailable_seconds(self) -> float:
        return max((window.seconds for window in self.unavailable), default=0.0)

    @property
    def worst_lag_seconds(self) -> float:
        return max((lag.seconds for lag in self.lags), default=0.0)

    def __str__(self) -> str:
        return "\n".join(map(str, [*self.unavailable, *self.lags]))


def measure(history: History, longer_than_seconds: float = LONGER_THAN_SECONDS) -> Measured:
    """The windows longer than a limit, in order, and the worst lag of every client that polls."""
    return Measured(_unavailable(history, longer_than_seconds), _lags(history))


def _unavailable(history: History, longer_than_seconds: float) -> list[Unavailable]:
    events: defaultdict[TopicPartition, list[tuple[float, int]]] = defaultdict(list)
    for send in history.sends:
        events[send.partition].append((send.begun_at, _BEGUN))
        kind = _ACKNOWLEDGED if send.outcome is Outcome.OK else _ENDED
        events[send.partition].append((min(send.ended_at, history.last_at), kind))
    windows = []
    for partition, seen in events.items():
        windows += [window for window in _gaps(partition, seen) if window.seconds > longer_than_seconds]
    return sorted(windows, key=lambda window: window.begun_at)


def _gaps(partition: TopicPartition, events: list[tuple[float, int]]) -> list[Unavailable]:
    gaps = []
    waiting = 0
    since: float | None = None
    at = 0.0
    for at, kind in sorted(events):
        if kind == _BEGUN:
            waiting += 1
            since = at if since is None else since
            continue
        waiting -= 1
        if kind == _ACKNOWLEDGED and since is not None:
            gaps.append(Unavailable(partition, since, at, True))
            since = at if waiting else None
    if since is not None:
        gaps.append(Unavailable(partition, since, at, False))
    return gaps


def _lags(history: History) -> list[Lag]:
    acknowledged = _acknowledgements(history)
    positions: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
    worst: dict[tuple[str, TopicPartition], Lag] = {}
    late_on_purpose = {read.client for read in history.final_reads}
    operations: list[Poll | Positioned] = [poll for poll in history.polls if poll.client not in late_on_purpose]
    operations += history.positions
    for operation in sorted(operations, key=lambda operation: operation.begun):
        client, at, position = operation.client, operation.begun_at, positions[operation.client]
        if isinstance(operation, Positioned):
            _go(position, operation)
            continue
        for partition, offset, _ in operation.records:
            position[partition] = offset + 1
        for partition, offset in position.items():
            offsets, earliest = acknowledged.get(partition, ([], []))
            index = bisect_left(offsets, offset)
            behind = max(at - earliest[index], 0.0) if index < len(offsets) else 0.0
            known = worst.get((client, partition))
            if known is None or behind > known.seconds:
                worst[client, partition] = Lag(client, partition, at, behind)
    return list(worst.values())


def _go(position: dict[TopicPartition, int], move: Positioned) -> None:
    for partition, offset in move.positions.items():
        if offset is None:
            position.pop(partition, None)
        else:
            position[partition] = offset


def _acknowledgements(history: History) -> dict[TopicPartition, tuple[list[int], list[float]]]:
    """Acknowledged offsets, rising, and beside each when it or a later one was known to exist."""
    known: defaultdict[TopicPartition, list[tuple[int, float]]] = defaultdict(list)
    for send in history.sends:
        if send.outcome is Outcome.OK and send.offset != NO_OFFSET:
            known[send.partition].append((send.offset + len(send.values) - 1, send.ended_at))
    return {partition: _earliest(ends) for partition, ends in known.items()}


def _earliest(ends: list[tuple[int, float]]) -> tuple[list[int], list[float]]:
    ends.sort()
    earliest = [at for _, at in ends]
    for index in range(len(earliest) - 2, -1, -1):
        earliest[index] = min(earliest[index], earliest[index + 1])
    return [offset for offset, _ in ends], earliest
