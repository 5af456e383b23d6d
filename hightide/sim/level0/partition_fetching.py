"""Both ends of replication traffic: a follower's session with one leader, and the fetches that a leader parks.

As R25 says, one session per (leader, durability), each on its own connection, at most one Fetch under way in each, and
the next one leaves when the answer is written and, in a synced session, synced.
"""

from typing import TYPE_CHECKING, NamedTuple

from hightide.errors import ErrorCode
from hightide.replication.events import FetchAnswered
from hightide.replication.fetching import FetchVerdict, NextFetch
from hightide.sim.level0.network import Connection, Stream
from hightide.sim.level0.partition_log import Record
from hightide.sim.level0.partition_replica import HostedReplica, Key

if TYPE_CHECKING:
    from hightide.sim.level0.partition_broker import BrokerProcess

FETCH_WAIT_SECONDS = 0.5
ANSWER_SECONDS = 2.0
RETRY_SECONDS = 0.1


class FetchPart(NamedTuple):
    """A partition's part of an answer."""

    error: ErrorCode = ErrorCode.NONE
    diverging: tuple[int, int] | None = None
    high_watermark: int = -1
    log_start: int = -1
    records: tuple[Record, ...] = ()


class Fetch:
    """A follower's request, and the stream that its answer takes."""

    __slots__ = ("asked", "broker_epoch", "broker_id", "is_answered", "number", "stream", "synced")

    def __init__(
        self, number: int, broker_id: int, broker_epoch: int, synced: bool, asked: dict[Key, NextFetch], stream: Stream
    ) -> None:
        self.number = number
        self.broker_id = broker_id
        self.broker_epoch = broker_epoch
        self.synced = synced
        self.asked = asked
        self.stream = stream
        self.is_answered = False


class FetchSession:
    """Everything that one broker pulls from one leader with one durability."""

    __slots__ = ("_connection", "_number", "_pending", "_process", "_timer", "leader", "replicas", "synced")

    def __init__(self, process: "BrokerProcess", leader: int, *, synced: bool) -> None:
        self._process = process
        self.leader = leader
        self.synced = synced
        self.replicas: dict[Key, HostedReplica] = {}
        self._connection: Connection | None = None
        self._number = 0
        self._pending: dict[Key, NextFetch] | None = None
        self._timer = 0

    def kick(self) -> None:
        """Ask, unless an answer is awaited, something is not synced yet, or there is nothing to ask."""
        if self._pending is not None or not self.replicas:
            return
        process = self._process
        now = process.clock()
        asked: dict[Key, NextFetch] = {}
        for key, replica in self.replicas.items():
            if (
                self.synced
                and replica.log.synced_end < replica.log.end
                and process.world.rules.r19_list_synced_logs_only
            ):
                process.dirty(replica)
                return
            wanted = replica.machine.next_fetch(now)
            if wanted is not None:
                asked[key] = wanted
        if not asked:
            self._retry(RETRY_SECONDS)
            return
        if self._connection is None or not self._connection.is_open:
            self._connection = process.world.network.connect(process.id, self.leader)
        self._number += 1
        self._pending = asked
        fetch = Fetch(self._number, process.id, process.broker_epoch, self.synced, asked, self._connection.response)
        process.world.network.send(self._connection.request, process.world.fetch_asked, self.leader, fetch)
        process.later(FETCH_WAIT_SECONDS + ANSWER_SECONDS, self._give_up, self._number)

    def answered(self, number: int, parts: dict[Key, FetchPart]) -> None:
        """The leader's answer: append, cut or wait, and ask again."""
        asked = self._pending
        if number != self._number or asked is None:
            return
        self._pending = None
        now = self._process.clock()
        for key, part in parts.items():
            replica = self.replicas.get(key)
            if replica is not None:
                fetch = asked[key]
                replica.handle(
                    FetchAnswered(
                        fetch.leader_epoch, fetch.fetch_offset, now, part.error, part.diverging, part.high_watermark,
                        part.log_start, bool(part.records),
                    ),
                    part.records,
                )  # fmt: skip
        self.kick()

    def _give_up(self, number: int) -> None:
        """No answer: the connection is dead, whatever it still carries."""
        if number != self._number or self._pending is None:
            return
        if self._connection is not None:
            self._process.world.network.close(self._connection)
            self._connection = None
        self._number += 1
        self._pending = None
        self._retry(RETRY_SECONDS)

    def _retry(self, seconds: float) -> None:
        self._timer += 1
        self._process.later(seconds, self._retried, self._timer)

    def _retried(self, timer: int) -> None:
        if timer == self._timer:
            self.kick()


class ParkedFetches:
    """What a leader owes its followers."""

    __slots__ = ("_process", "_told", "_waiting")

    def __init__(self, process: "BrokerProcess") -> None:
        self._process = process
        self._waiting: dict[tuple[int, bool], Fetch] = {}
        self._told: dict[tuple[int, Key], int] = {}

    def arrived(self, fetch: Fetch) -> None:
        """Credit the follower (C17); answer when there is news, at the latest after a while."""
        process = self._process
        now = process.clock()
        is_ready = False
        verdicts: dict[Key, FetchVerdict] = {}
        for key, asked in fetch.asked.items():
            replica = process.replicas.get(key)
            if replica is None:
                is_ready = True
                continue
            verdict = replica.machine.on_follower_fetch(
                fetch.broker_id, fetch.broker_epoch, asked.leader_epoch, asked.fetch_offset, asked.last_fetched_epoch,
                asked.log_start, now, fetch.synced,
            )  # fmt: skip
            verdicts[key] = verdict
            if verdict.effects:
                replica.carry_out(verdict.effects)
            is_ready = is_ready or not verdict.serves or self._has_news(fetch, key, replica)
        if is_ready:
            self._answer(fetch, verdicts)
        else:
            self._waiting[fetch.broker_id, fetch.synced] = fetch
            process.later(FETCH_WAIT_SECONDS, self._answer, fetch)

    def wake(self, replica: HostedReplica) -> None:
        """The replica's log or high watermark moved, or its role changed."""
        for name, fetch in list(self._waiting.items()):
            if replica.key in fetch.asked and self._has_news(fetch, replica.key, replica):
                del self._waiting[name]
                self._answer(fetch)

    def _has_news(self, fetch: Fetch, key: Key, replica: HostedReplica) -> bool:
        asked = fetch.asked[key]
        machine = replica.machine
        return (
            replica.log.end > asked.fetch_offset
            or not machine.is_leader
            or machine.leader_epoch != asked.leader_epoch
            or machine.high_watermark > self._told.get((fetch.broker_id, key), -1)
        )

    def _answer(self, fetch: Fetch, verdicts: dict[Key, FetchVerdict] | None = None) -> None:
        """`verdicts` are those of its arrival, if that is now; one that was parked is judged again."""
        if fetch.is_answered:
            return
        fetch.is_answered = True
        parts = {
            key: self._part(fetch, key, asked, None if verdicts is None else verdicts.get(key))
            for key, asked in fetch.asked.items()
        }
        world = self._process.world
        world.network.send(fetch.stream, world.fetch_answered, fetch.broker_id, self._process.id, fetch, parts)

    def _part(self, fetch: Fetch, key: Key, asked: NextFetch, verdict: FetchVerdict | None) -> FetchPart:
        replica = self._process.replicas.get(key)
        if replica is None:
            return FetchPart(ErrorCode.UNKNOWN_TOPIC_ID)
        if verdict is None:
            verdict = replica.machine.judge_fetch(
                fetch.broker_id, fetch.broker_epoch, asked.leader_epoch, asked.fetch_offset, asked.last_fetched_epoch
            )
        log, high_watermark = replica.log, replica.machine.high_watermark
        self._told[fetch.broker_id, key] = high_watermark if verdict.serves else -1
        records: tuple[Record, ...] = ()
        if verdict.serves:
            count = self._process.world.options.records_per_fetch
            records = tuple(log.records[asked.fetch_offset : asked.fetch_offset + count])
        return FetchPart(verdict.error, verdict.diverging, high_watermark, log.start, records)
