"""Fetch (1), versions 4-18: the hot path out, for consumers and for followers (T3).

Answers at once when `min_bytes` are there, something is wrong or there is nothing to wait for; else when an append
brings enough or `max_wait_ms` have passed. A parked fetch holds offsets only: files are pinned when the answer is made.
The first batch is returned whole even where it is larger than the limits (KIP-74). Sessions: KIP-227. Topics by id from
version 13 on. An offset between the high watermark and the end is empty, not out of range (R13). A follower is judged
and credited when its request arrives, once, and reads to the end of the log (C17). Replica id -2 is Kafka's debugging
consumer: the only reader whom a follower serves too.
"""

from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

from hightide.errors import ApiError, ErrorCode
from hightide.node.fetch_sessions import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    FetchedPartition,
    FetchSession,
)
from hightide.node.follower_news import FollowerNews
from hightide.node.ports import Part
from hightide.node.sessions import PARKED
from hightide.replication.fetching import FetchVerdict
from hightide.storage.files import FileSlice
from hightide.wire.fetch import Fetch, FetchedRecords, decode_fetch_request, encode_fetch_response

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition
    from hightide.node.sessions import Request

READ_COMMITTED: Final = 1
SYNCED_SESSION: Final = 1  # our tagged field: the follower syncs before it asks for more (R25)
DEBUGGING_CONSUMER: Final = -2  # sees any replica's log to its end, a follower's too: for comparing replicas (S4)
FILLED_PIECES_MAX: Final = 4  # of `replica.fetch.max.bytes`, for a partition that has an answer to itself
SYNCED_PIECES_MAX: Final = 8  # where every answer costs the follower a sync: four times as much took twice as long
COPIED_BYTES_MAX: Final = 16 * 1024  # below this, one read and one send cost less than a send and a sendfile


def handle(node: "Node", request: "Request") -> Sequence[Part] | None:
    """Answer now, or park."""
    fetch = decode_fetch_request(request.body_bytes, request.version)
    request.session.stats.fetches += 1
    try:
        session, partitions = _session(node, request, fetch)
    except ApiError as error:
        parts = encode_fetch_response(request.version, (), session_id=NO_SESSION, error_code=error.code)
        return request.framed_parts(parts)
    attempt: FetchAttempt
    if fetch.replica_id >= 0:
        attempt = FollowerFetch(node, request, fetch, session, partitions)
    else:
        attempt = FetchAttempt(node, request, fetch, session, partitions)
    if fetch.max_wait_ms > 0 and not attempt.is_enough():
        attempt.park()
        return PARKED
    return attempt.answer()


def _session(node: "Node", request: "Request", fetch: Fetch) -> tuple[FetchSession | None, Iterable[FetchedPartition]]:
    """The session of this fetch, if any, and the partitions to read in their order."""
    uses_ids = request.version >= 13
    now = request.session.clock.now()
    if fetch.session_id != NO_SESSION and fetch.session_epoch > INITIAL_EPOCH:
        session = node.fetch_sessions.continue_session(fetch.session_id, fetch.session_epoch, uses_ids, now)
        session.update(_asked(fetch), ((topic, index) for topic, indexes in fetch.forgotten for index in indexes))
        return session, session.partitions.values()
    if fetch.session_id != NO_SESSION:
        node.fetch_sessions.close(fetch.session_id)
    asked = list(_asked(fetch))
    if fetch.session_epoch == FINAL_EPOCH or not asked:
        return None, asked
    created = node.fetch_sessions.create(asked, uses_ids, now)
    return created, asked


def _asked(fetch: Fetch) -> Iterable[FetchedPartition]:
    for topic, partitions in fetch.topics:
        for asked in partitions:
            yield FetchedPartition(
                topic, asked.partition, asked.fetch_offset, asked.max_bytes, asked.current_leader_epoch,
                asked.last_fetched_epoch, asked.log_start_offset, asked.tombstone_horizon,
            )  # fmt: skip


class FetchAttempt:
    """One fetch from its arrival to its answer."""

    is_follower = False

    __slots__ = (
        "_deadline_slot", "_fetch", "_is_incremental", "_node", "_partitions", "_request", "_session", "_waits_for",
    )  # fmt: skip

    def __init__(
        self,
        node: "Node",
        request: "Request",
        fetch: Fetch,
        session: FetchSession | None,
        partitions: Iterable[FetchedPartition],
    ) -> None:
        self._node = node
        self._request = request
        self._fetch = fetch
        self._session = session
        self._is_incremental = session is not None and fetch.session_epoch > INITIAL_EPOCH
        self._partitions = list(partitions)
        self._waits_for: list[Partition] = []
        self._deadline_slot = -1

    # ------------------------------------------------------------------ waiting

    def is_enough(self) -> bool:
        """Whether an answer is due without waiting: enough bytes, an error, or nothing that could ever come."""
        wanted = max(1, self._fetch.min_bytes)
        found = 0
        for asked in self._partitions:
            try:
                partition = self._find(asked)
                bound = self._bound(partition)
                offset = asked.fetch_offset
                if not partition.log.start <= offset <= partition.log.end:
                    return True
                if offset < bound:
                    if self._is_held(partition):
                        continue
                    if wanted > 1:
                        found += self._available(partition, offset, bound, wanted)
                    if wanted == 1 or found >= wanted:
                        return True
                elif self._diverges(partition, asked) is not None:
                    return True
            except ApiError:
                return True
        return not self._could_have_more()

    def _could_have_more(self) -> bool:
        """Whether there is anything to wait for."""
        return bool(self._partitions)

    def _available(self, partition: "Partition", offset: int, bound: int, wanted: int) -> int:
        """Bytes that could be sent, as far as the first segment tells."""
        read = partition.read(offset, wanted, bound, at_least_one=True)
        if read is None:
            return 0
        read.slice.release()
        return read.slice.length

    def park(self) -> None:
        """Wait for the partitions or for the time."""
        self._await_news()
        self._request.session.closed_callbacks[self._unpark] = None
        self._node.parked_fetches[self] = None
        self._deadline_slot = self._node.deadlines.add(self, self._fetch.max_wait_ms / 1000)

    def progress(self) -> None:
        """One of the partitions moved."""
        if self.is_enough():
            self.expired()

    def expired(self) -> None:
        """Answer with what there is."""
        self._unpark()
        session = self._request.session
        session.closed_callbacks.pop(self._unpark, None)
        try:
            parts = self.answer()
        except Exception:
            session.fail()  # nobody above us could: we were called by a timer or by somebody else's append
        else:
            self._request.answer(parts)

    def _unpark(self) -> None:
        self._node.deadlines.remove(self, self._deadline_slot)
        self._node.parked_fetches.pop(self, None)
        self._await_nothing()

    def _await_news(self) -> None:
        for asked in self._partitions:
            partition = self._find(asked)
            partition.fetch_waiters[self.progress] = None
            self._waits_for.append(partition)

    def _await_nothing(self) -> None:
        for partition in self._waits_for:
            partition.fetch_waiters.pop(self.progress, None)
        self._waits_for.clear()

    # ------------------------------------------------------------------ reading

    def answer(self) -> Sequence[Part]:
        """Read every partition within the limits and make the answer."""
        left = min(self._fetch.max_bytes, self._node.settings.fetch_max_bytes)
        topics: dict[str | bytes, list[FetchedRecords]] = {}
        hinted: set[int] = set()
        read_something = False
        sharing = len(self._partitions)
        for asked in self._partitions:
            result = self._read(asked, self._limit(asked, left, sharing), at_least_one=not read_something)
            sharing -= 1
            size = _length(result)
            if size:
                read_something = True
                left -= min(left, size)
                if self._session is not None:
                    self._session.served((asked.topic, asked.index))
            if self._is_said(asked, result, size):
                topics.setdefault(asked.topic, []).append(result)
                if result.current_leader is not None:
                    hinted.add(result.current_leader[0])
        session_id = NO_SESSION if self._session is None else self._session.identifier
        endpoints = self._node.addresses_of(hinted, self._request.session.listener_name) if hinted else ()
        parts = encode_fetch_response(
            self._request.version, list(topics.items()), session_id=session_id, endpoints=endpoints
        )
        return self._request.framed_parts(parts)

    def _is_said(self, asked: FetchedPartition, result: FetchedRecords, size: int) -> bool:
        """A session's later answers leave out what the client knows already."""
        news = asked.say(result.high_watermark, result.log_start_offset)
        if result.error_code:
            asked.forget_said()  # after an error the partition is told in full again (R25)
        return not self._is_incremental or news or bool(size or result.error_code or result.diverging_epoch)

    def _limit(self, asked: FetchedPartition, left: int, sharing: int) -> int:  # noqa: ARG002
        """How much of one partition the answer takes, when `sharing` of them are still to be read."""
        return min(asked.max_bytes, left)

    def _read(self, asked: FetchedPartition, limit: int, *, at_least_one: bool) -> FetchedRecords:
        try:
            partition = self._find(asked)
            log = partition.log
            stable = partition.last_stable_offset
            diverging = self._diverges(partition, asked)
            records: bytes | FileSlice = b""
            aborted = None
            if diverging is None:
                bound = asked.fetch_offset if self._is_held(partition) else self._bound(partition)
                read = partition.read(asked.fetch_offset, limit, bound, at_least_one=at_least_one)
                if read is not None:
                    self._sends(partition, read.slice.length)
                    records = _small_as_bytes(read.slice)
                if self._fetch.isolation_level == READ_COMMITTED:
                    aborted = [] if read is None else log.aborted_transactions(asked.fetch_offset, read.end)
        except ApiError as error:
            return self._failed(asked, error.code)
        except OSError as error:
            return FetchedRecords(asked.index, partition.quarantine(error).code)
        return FetchedRecords(
            asked.index, 0, partition.replica.high_watermark, stable, log.start, records, aborted,
            diverging_epoch=diverging,
        )  # fmt: skip

    def _find(self, asked: FetchedPartition) -> "Partition":
        partition = self._known(asked)
        if self._fetch.replica_id == DEBUGGING_CONSUMER:
            partition.check_replica(asked.current_leader_epoch)
        else:
            partition.check_leader(asked.current_leader_epoch)
        return partition

    def _known(self, asked: FetchedPartition) -> "Partition":
        """Whatever its state; ApiError where there is none."""
        table = self._request.session.partitions.get(asked.topic)
        partition = None if table is None else table.get(asked.index)
        return self._node.partition(asked.topic, asked.index) if partition is None else partition

    def _bound(self, partition: "Partition") -> int:
        if self._fetch.replica_id == DEBUGGING_CONSUMER:
            return partition.log.end
        if self._fetch.isolation_level == READ_COMMITTED:
            return partition.last_stable_offset
        return partition.replica.high_watermark

    def _is_held(self, partition: "Partition") -> bool:  # noqa: ARG002
        """Whether the reader has to wait although there is something to read."""
        return False

    def _sends(self, partition: "Partition", size: int) -> None:
        """So much of a partition is about to leave."""

    def _diverges(self, partition: "Partition", asked: FetchedPartition) -> tuple[int, int] | None:
        """Where the reader's log parts from ours, if it says what it last read (KIP-595)."""
        if asked.last_fetched_epoch < 0:
            return None
        epoch, end = partition.log.end_of_epoch(asked.last_fetched_epoch)
        if epoch < asked.last_fetched_epoch or end < asked.fetch_offset:
            return epoch, end
        return None

    def _failed(self, asked: FetchedPartition, code: ErrorCode) -> FetchedRecords:
        """An error; one about the offset says where the log begins, so that a reader can begin there too."""
        start = -1
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            start = self._node.partition(asked.topic, asked.index).log.start
        return FetchedRecords(asked.index, code, log_start_offset=start, current_leader=self._leader_hint(asked, code))

    def _leader_hint(self, asked: FetchedPartition, code: ErrorCode) -> tuple[int, int] | None:
        if code in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH):
            return self._node.leader_hint(asked.topic, asked.index)
        return None


class FollowerFetch(FetchAttempt):
    """A follower's fetch: judged on arrival by the partition's replica machine, then served to the log's end.

    In a session only what is new is judged and served, but for a look at everything now and then (`follower_news`).
    """

    __slots__ = ("_news", "_verdicts")

    is_follower = True

    def __init__(
        self,
        node: "Node",
        request: "Request",
        fetch: Fetch,
        session: FetchSession | None,
        partitions: Iterable[FetchedPartition],
    ) -> None:
        super().__init__(node, request, fetch, session, ())
        if session is not None and session.news is None:
            session.news = FollowerNews()
            # A broker's session ends with its connection: nobody else could continue it.
            request.session.closed_callbacks[partial(node.fetch_sessions.close, session.identifier)] = None
        self._news = FollowerNews() if session is None or session.news is None else session.news
        self._verdicts: dict[FetchedPartition, FetchVerdict] = {}
        if self._news.is_full_look_due(request.session.clock.now()) or not self._is_incremental:
            self._partitions = list(partitions)
        else:
            self._look_at_news()
        request.session.stats.followed_partitions += len(self._partitions)
        for asked in self._partitions:
            verdict = self._judge(asked)
            if not verdict.serves:
                self._verdicts[asked] = verdict

    def _look_at_news(self) -> None:
        """What was told since the request came was judged when it was asked for last, in this session and epoch."""
        if self._is_incremental and self._session is not None:
            known = self._session.partitions
            self._partitions = [known[key] for key in self._news.keys if key in known]

    def _could_have_more(self) -> bool:
        return bool(self._partitions if self._session is None else self._session.partitions)

    def progress(self) -> None:
        """One of the partitions moved."""
        self._look_at_news()
        super().progress()

    def expired(self) -> None:
        """Answer with what there is."""
        self._look_at_news()
        super().expired()

    def answer(self) -> Sequence[Part]:
        """Read what there is to say and make the answer."""
        try:
            return super().answer()
        finally:
            if self._session is None:
                self._news.close()

    def _await_news(self) -> None:
        self._news.wake = self.progress

    def _await_nothing(self) -> None:
        self._news.wake = None
        if self._session is None:
            self._news.close()

    def _is_said(self, asked: FetchedPartition, result: FetchedRecords, size: int) -> bool:
        is_said = super()._is_said(asked, result, size)
        key = (asked.topic, asked.index)
        if self._is_unusual(asked, result, size):
            self._news.keys.setdefault(key)
        else:
            self._news.keys.pop(key, None)
        return is_said

    def _is_unusual(self, asked: FetchedPartition, result: FetchedRecords, size: int) -> bool:
        """Whether the next answer has to look at it again, even if nothing happens until then."""
        if result.error_code or result.diverging_epoch is not None:
            return True
        partition = self._known(asked)
        if self._fetch.replica_id not in partition.replica.in_sync_replicas:
            return True
        return size == 0 and asked.fetch_offset < partition.log.end

    def _judge(self, asked: FetchedPartition) -> FetchVerdict:
        try:
            partition = self._known(asked)
        except ApiError as error:
            return FetchVerdict(error.code)
        self._news.watch((asked.topic, asked.index), partition)
        fetch = self._fetch
        return partition.follower_fetched(
            fetch.replica_id,
            fetch.replica_epoch,
            asked.current_leader_epoch,
            asked.fetch_offset,
            asked.last_fetched_epoch,
            asked.log_start,
            fetch.session_durability == SYNCED_SESSION,
            asked.tombstone_horizon,
        )

    def _find(self, asked: FetchedPartition) -> "Partition":
        verdict = self._verdicts.get(asked)
        if verdict is not None and verdict.error:
            raise ApiError(verdict.error)
        return super()._find(asked)

    def _bound(self, partition: "Partition") -> int:
        return partition.log.end

    def _limit(self, asked: FetchedPartition, left: int, sharing: int) -> int:
        """An even share of what is left of the answer, if that is more: a lone busy partition waits for fewer round
        trips and syncs (docs/decisions/0012). Not while followers are throttled, who shall get little at a time."""
        limit = asked.max_bytes
        if not self._request.session.leader_throttle.is_on:
            is_synced = self._fetch.session_durability == SYNCED_SESSION
            pieces_max = SYNCED_PIECES_MAX if is_synced else FILLED_PIECES_MAX
            limit = max(limit, min(left // sharing, pieces_max * limit))
        return min(limit, left)

    def _diverges(self, partition: "Partition", asked: FetchedPartition) -> tuple[int, int] | None:  # noqa: ARG002
        verdict = self._verdicts.get(asked)
        return None if verdict is None else verdict.diverging

    def _is_held(self, partition: "Partition") -> bool:
        return self._is_throttled(partition) and self._node.leader_throttle.seconds_to_wait(self._node.clock.now()) > 0

    def _sends(self, partition: "Partition", size: int) -> None:
        if self._is_throttled(partition):
            self._node.leader_throttle.took(size, self._node.clock.now())

    def _is_throttled(self, partition: "Partition") -> bool:
        return (
            self._request.session.leader_throttle.is_on
            and self._fetch.replica_id in partition.throttled_followers
            and self._fetch.replica_id not in partition.replica.in_sync_replicas
        )


def _length(result: FetchedRecords) -> int:
    records = result.records
    if isinstance(records, FileSlice):
        return records.length
    return len(records) if isinstance(records, bytes) else 0


def _small_as_bytes(piece: FileSlice) -> bytes | FileSlice:
    if piece.length > COPIED_BYTES_MAX:
        return piece
    try:
        return piece.read()
    finally:
        piece.release()
