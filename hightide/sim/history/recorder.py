"""The recorder that clients report to: the beginning and the end of everything they do.

Law: a call that returned before another one was made gets the lower moment. Simulated clients give a virtual clock;
in tests on real clusters many threads report to one history, hence the lock.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from threading import Lock

from hightide.sim.history.operations import (
    ACKS_ALL,
    Commit,
    CommittedRead,
    FinalRead,
    LogLine,
    Mark,
    Observation,
    Outcome,
    Ownership,
    Poll,
    Polled,
    Positioned,
    Send,
    Value,
)
from hightide.types import NO_EPOCH, NO_OFFSET, TopicPartition


class History:
    """Everything that clients of one cluster did, in the order of their beginnings. `clock` gives seconds.

    An operation without an end is unknown: whoever began it died or gave up.
    """

    def __init__(self, clock: Callable[[], float]) -> None:
        self.sends: list[Send] = []
        self.polls: list[Poll] = []
        self.positions: list[Positioned] = []
        self.observations: list[Observation] = []
        self.final_reads: list[FinalRead] = []
        self.ownerships: list[Ownership] = []
        self.commits: list[Commit] = []
        self.committed_reads: list[CommittedRead] = []
        self.log_lines: list[LogLine] = []
        self.senders: dict[TopicPartition, dict[Value, Send]] = {}
        self.moments = 0  # how many were given
        self.last_at = 0.0
        self._clock = clock
        self._log_lengths: dict[str, int] = {}
        self._lock = Lock()

    def moment(self) -> int:
        """The next moment; give it to `observed` as the time when the question was asked."""
        with self._lock:
            return self._tick()

    def begin_send(
        self,
        client: str,
        partition: TopicPartition,
        *values: Value,
        acks: int = ACKS_ALL,
        idempotent: bool = True,
    ) -> Send:
        """Before the client is called. ValueError for a value that was already sent there, even without success."""
        with self._lock:
            senders = self.senders.setdefault(partition, {})
            if not values or len({*values}) != len(values) or not senders.keys().isdisjoint(values):
                raise ValueError(f"values must be new in {partition}: {values!r}")
            moment = self._tick()
            send = Send(client, partition, values, moment, self.last_at, acks, idempotent)
            for value in values:
                senders[value] = send
            self.sends.append(send)
            return send

    def acknowledged(self, send: Send, offset: int = NO_OFFSET) -> None:
        """The producer was told that it is kept, the first value at `offset` if it was told that too."""
        with self._lock:
            send.offset = offset
            self._end(send, Outcome.OK)

    def begin_poll(self, client: str) -> Poll:
        """Before the client is called."""
        with self._lock:
            poll = Poll(client, self._tick(), self.last_at)
            self.polls.append(poll)
            return poll

    def polled(self, poll: Poll, records: Sequence[Polled]) -> None:
        """What the call returned, in its order; nothing is a result too."""
        with self._lock:
            poll.records = records
            self._end(poll, Outcome.OK)

    def owned(self, client: str, group: str, partitions: Iterable[TopicPartition], generation: int = -1) -> Ownership:
        """A member was told that these are its own; see `Ownership`."""
        with self._lock:
            owned = Ownership(client, group, frozenset(partitions), self._tick(), self.last_at, generation)
            self.ownerships.append(owned)
            return owned

    def gave_up(self, ownership: Ownership) -> None:
        """Before the member says so to anybody, or when it died."""
        with self._lock:
            ownership.ended = self._tick()
            ownership.ended_at = self.last_at

    def begin_commit(self, client: str, group: str, offsets: Mapping[TopicPartition, int]) -> Commit:
        """Before the client is called."""
        with self._lock:
            commit = Commit(client, group, dict(offsets), self._tick(), self.last_at)
            self.commits.append(commit)
            return commit

    def committed(self, commit: Commit) -> None:
        """The member was told that its group's offsets are kept."""
        with self._lock:
            self._end(commit, Outcome.OK)

    def read_committed(self, client: str, group: str, offsets: Mapping[TopicPartition, int], *, asked: int) -> None:
        """A coordinator's statement, `asked` at a moment."""
        with self._lock:
            moment = self._tick()
            self.committed_reads.append(
                CommittedRead(client, group, dict(offsets), asked, self.last_at, moment, self.last_at)
            )

    def failed(self, operation: Send | Poll | Commit, reason: str = "") -> None:
        """It certainly did not happen: it was refused, or never left the client."""
        with self._lock:
            self._end(operation, Outcome.FAIL, reason)

    def unknown(self, operation: Send | Poll | Commit, reason: str = "") -> None:
        """Nobody can tell whether it happened: a time-out, a lost connection."""
        with self._lock:
            self._end(operation, Outcome.UNKNOWN, reason)

    def positioned(self, client: str, positions: Mapping[TopicPartition, int | None]) -> None:
        """The client was assigned these partitions, sought or rebalanced: see `Positioned`.

        A consumer that starts anywhere but at the beginning must say so, or K3 misses what lies before.
        """
        with self._lock:
            moment = self._tick()
            self.positions.append(Positioned(client, dict(positions), moment, self.last_at))

    def observed(
        self,
        client: str,
        partition: TopicPartition,
        mark: Mark,
        offset: int,
        *,
        asked: int,
        leader_epoch: int = NO_EPOCH,
    ) -> None:
        """A broker's statement, `asked` at a moment: that of the request, or the beginning of the poll it came with.

        Give no leader epoch for what a follower stated: it lags behind its leader.
        """
        with self._lock:
            moment = self._tick()
            told = Observation(client, partition, mark, offset, asked, moment, self.last_at, leader_epoch)
            self.observations.append(told)

    def begin_final_read(self, client: str, partitions: Iterable[TopicPartition]) -> FinalRead:
        """A client of this new name will poll all of these partitions from the start."""
        with self._lock:
            read = FinalRead(client, tuple(partitions), self._tick(), self.last_at)
            self.final_reads.append(read)
            return read

    def caught_up(self, read: FinalRead) -> None:
        """It has polled everything up to the end that every partition had."""
        with self._lock:
            read.ended = self._tick()
            read.ended_at = self.last_at

    def logged(self, process: str, text: str) -> None:
        """What a process wrote to its log and to its standard streams, one line or all of it."""
        with self._lock:
            self._tick()
            before = self._log_lengths.get(process, 0)
            lines = [LogLine(process, number, line) for number, line in enumerate(text.splitlines(), before + 1)]
            self._log_lengths[process] = before + len(lines)
            self.log_lines += lines

    def _tick(self) -> int:
        self.moments += 1
        self.last_at = self._clock()
        return self.moments

    def _end(self, operation: Send | Poll | Commit, outcome: Outcome, reason: str = "") -> None:
        operation.outcome = outcome
        operation.reason = reason
        operation.ended = self._tick()
        operation.ended_at = self.last_at
