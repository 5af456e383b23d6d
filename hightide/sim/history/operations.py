"""The operations of a history: what clients asked for, when, and what they were told.

Every beginning and every end is a *moment*, a number that rises with each call to the recorder, so that "before" has
one meaning on virtual time, on a coarse clock and across threads: an operation that ended at a lower moment than
another began was over before it. Seconds (`begun_at`, `ended_at`) serve measurements and readers only.

Values are unique within a partition: a value names the send it came from.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from math import inf
from sys import maxsize
from typing import NamedTuple

from hightide.types import NO_EPOCH, NO_OFFSET, TopicPartition

Value = bytes | int
ACKS_ALL = -1
OPEN = maxsize  # the moment of an end that never came
_SHOWN_BYTES = 40


class Outcome(Enum):
    """Whether it happened: yes, no, or nobody can tell. What never ended is unknown."""

    OK = "ok"
    FAIL = "fail"
    UNKNOWN = "unknown"


class Mark(StrEnum):
    """Which offset of a partition an observation is about.

    The first two are what a Fetch answer carries: they are monotone within one leader epoch only, because a new leader
    learns the high watermark anew. The next two are ListOffsets' answers for "latest" at either isolation level, which
    never go back for a client that refuses older leader epochs: a new leader answers OFFSET_NOT_AVAILABLE at first.
    """

    HIGH_WATERMARK = "high watermark"
    LAST_STABLE_OFFSET = "last stable offset"
    LATEST = "latest offset"
    LATEST_STABLE = "latest stable offset"
    LOG_START = "log start"


class Polled(NamedTuple):
    """One record that a poll returned."""

    partition: TopicPartition
    offset: int
    value: Value


@dataclass(slots=True, eq=False)
class Send:
    """Values for one partition, in order; several only if they travel as one batch, whose offsets have no gaps.

    `client` is one producer: its sends begin in the order in which it was called. `acks` other than all promises no
    durability, `idempotent` promises one copy and the order of the calls.
    """

    client: str
    partition: TopicPartition
    values: tuple[Value, ...]
    begun: int
    begun_at: float
    acks: int = ACKS_ALL
    idempotent: bool = True
    outcome: Outcome = Outcome.UNKNOWN
    offset: int = NO_OFFSET  # of the first value; an acknowledgement may come without (a duplicate's)
    ended: int = OPEN
    ended_at: float = inf
    reason: str = ""

    @property
    def is_durable(self) -> bool:
        """Whether it was acknowledged for good: such values are never lost, moved or changed."""
        return self.outcome is Outcome.OK and self.acks == ACKS_ALL

    def __str__(self) -> str:
        values = ", ".join(show(value) for value in self.values[:5]) + (", ..." if len(self.values) > 5 else "")
        place = f" at offset {self.offset}" if self.offset != NO_OFFSET else ""
        return f"{_when(self)} {self.client} sends {values} to {self.partition}: {_result(self)}{place}"


@dataclass(slots=True, eq=False)
class Poll:
    """One call of a consumer. A client's polls follow each other, from where the last one ended."""

    client: str
    begun: int
    begun_at: float
    records: Sequence[Polled] = ()
    outcome: Outcome = Outcome.UNKNOWN
    ended: int = OPEN
    ended_at: float = inf
    reason: str = ""

    def __str__(self) -> str:
        offsets: dict[TopicPartition, list[int]] = {}
        for partition, offset, _ in self.records:
            offsets.setdefault(partition, []).append(offset)
        read = "; ".join(
            f"{len(some)} of {partition}, offsets {some[0]} to {some[-1]}" for partition, some in offsets.items()
        )
        return f"{_when(self)} {self.client} polls: {_result(self)}, {read or 'no records'}"


@dataclass(slots=True, eq=False)
class Positioned:
    """A client's next poll starts elsewhere: it was assigned, sought or rebalanced.

    An offset is where it will go on; None says that someone else decides (its group, the reset policy).
    """

    client: str
    positions: Mapping[TopicPartition, int | None]
    begun: int
    begun_at: float

    def __str__(self) -> str:
        places = ", ".join(
            str(partition) if offset is None else f"{partition} at {offset}"
            for partition, offset in self.positions.items()
        )
        return f"#{self.begun} {self.begun_at:.3f} s {self.client} goes to {places}"


@dataclass(slots=True, eq=False)
class Observation:
    """An offset that a broker stated. `leader_epoch` is the answering leader's, where the client learns it."""

    client: str
    partition: TopicPartition
    mark: Mark
    offset: int
    begun: int
    ended: int
    ended_at: float
    leader_epoch: int = NO_EPOCH

    def __str__(self) -> str:
        epoch = "" if self.leader_epoch == NO_EPOCH else f" in leader epoch {self.leader_epoch}"
        told = f"is told {self.mark} {self.offset} of {self.partition}{epoch}"
        return f"#{self.begun}-{self.ended} {self.ended_at:.3f} s {self.client} {told}"


@dataclass(slots=True, eq=False)
class FinalRead:
    """After healing, a fresh client reads everything from the start. It has ended when it reached the end."""

    client: str
    partitions: tuple[TopicPartition, ...]
    begun: int
    begun_at: float
    ended: int = OPEN
    ended_at: float = inf

    def __str__(self) -> str:
        read = ", ".join(map(str, self.partitions))
        result = "reached the end" if self.ended != OPEN else "never reached the end"
        return f"{_when(self)} {self.client} reads everything of {read}: {result}"


@dataclass(slots=True, eq=False)
class Ownership:
    """A member of a group was told that partitions are its own, until it gave them up, was told so, or died.

    With its generation where the client knows it: then a member that lost its partitions without knowing is no second
    owner, since everything it does is fenced. Without one (-1) no two may own a partition at the same time.
    """

    client: str
    group: str
    partitions: frozenset[TopicPartition]
    begun: int
    begun_at: float
    generation: int = -1
    ended: int = OPEN
    ended_at: float = inf

    def __str__(self) -> str:
        owned = ", ".join(sorted(map(str, self.partitions)))
        generation = "" if self.generation < 0 else f" in generation {self.generation}"
        return f"{_when(self)} {self.client} owns {owned} for {self.group}{generation}"


@dataclass(slots=True, eq=False)
class Commit:
    """Offsets that a member committed for its group. Members only go forward: they begin where the group was."""

    client: str
    group: str
    offsets: Mapping[TopicPartition, int]
    begun: int
    begun_at: float
    outcome: Outcome = Outcome.UNKNOWN
    ended: int = OPEN
    ended_at: float = inf
    reason: str = ""

    def __str__(self) -> str:
        offsets = ", ".join(f"{partition} at {offset}" for partition, offset in self.offsets.items())
        return f"{_when(self)} {self.client} commits {offsets} for {self.group}: {_result(self)}"


@dataclass(slots=True, eq=False)
class CommittedRead:
    """What a coordinator said a group had committed; -1 for nothing."""

    client: str
    group: str
    offsets: Mapping[TopicPartition, int]
    begun: int
    begun_at: float
    ended: int
    ended_at: float

    def __str__(self) -> str:
        offsets = ", ".join(f"{partition} at {offset}" for partition, offset in self.offsets.items())
        return f"{_when(self)} {self.client} is told that {self.group} is with {offsets}"


class LogLine(NamedTuple):
    """A line that a process wrote, numbered from 1."""

    process: str
    number: int
    text: str

    def __str__(self) -> str:
        return f"{self.process}:{self.number}: {self.text}"


Operation = Send | Poll | Positioned | Observation | FinalRead | Ownership | Commit | CommittedRead | LogLine


def show(value: Value) -> str:
    """A value, short enough for a line."""
    if isinstance(value, int):
        return str(value)
    return repr(value) if len(value) <= _SHOWN_BYTES else f"{value[:_SHOWN_BYTES]!r}... ({len(value)} bytes)"


def _when(operation: Send | Poll | FinalRead | Ownership | Commit | CommittedRead) -> str:
    if operation.ended == OPEN:
        return f"#{operation.begun} {operation.begun_at:.3f} s"
    return f"#{operation.begun}-{operation.ended} {operation.begun_at:.3f}-{operation.ended_at:.3f} s"


def _result(operation: Send | Poll | Commit) -> str:
    return operation.outcome.value + (f" ({operation.reason})" if operation.reason else "")
