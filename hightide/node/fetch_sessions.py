"""Fetch sessions (KIP-227): a client that keeps fetching the same partitions names only what changed.

A session remembers the partitions in the order they were last served and what was last said about each. It is memory
only: an unknown or stale session is refused, and the client begins a new one with a full fetch. Their number is
bounded; a new one replaces the one unused longest, if that was idle for long enough, else the client goes on without.
"""

from collections.abc import Iterable
from typing import Final

from hightide import limits
from hightide.errors import ApiError, ErrorCode
from hightide.node.follower_news import FollowerNews

NO_SESSION: Final = 0
INITIAL_EPOCH: Final = 0
FINAL_EPOCH: Final = -1
EVICTION_IDLE_SECONDS: Final = 120.0  # Kafka's min.incremental.fetch.session.eviction.ms
_EPOCH_MAX: Final = 2**31 - 1


class FetchedPartition:
    """One partition of a fetch: what the client asked, and what it was last told."""

    __slots__ = (
        "current_leader_epoch", "fetch_offset", "index", "last_fetched_epoch", "log_start", "max_bytes",
        "said_high_watermark", "said_log_start", "tombstone_horizon", "topic",
    )  # fmt: skip

    def __init__(
        self,
        topic: str | bytes,
        index: int,
        fetch_offset: int,
        max_bytes: int,
        current_leader_epoch: int,
        last_fetched_epoch: int,
        log_start: int = -1,
        tombstone_horizon: int = -1,
    ) -> None:
        self.topic = topic
        self.index = index
        self.fetch_offset = fetch_offset
        self.max_bytes = max_bytes
        self.current_leader_epoch = current_leader_epoch
        self.last_fetched_epoch = last_fetched_epoch
        self.log_start = log_start  # a follower's, like the next
        self.tombstone_horizon = tombstone_horizon
        self.forget_said()

    def ask(self, other: "FetchedPartition") -> None:
        """Take what the client asks now."""
        self.fetch_offset = other.fetch_offset
        self.max_bytes = other.max_bytes
        self.current_leader_epoch = other.current_leader_epoch
        self.last_fetched_epoch = other.last_fetched_epoch
        self.log_start = other.log_start
        self.tombstone_horizon = other.tombstone_horizon

    def forget_said(self) -> None:
        """Whatever is said next is news."""
        self.said_high_watermark = self.said_log_start = -2

    def say(self, high_watermark: int, log_start: int) -> bool:
        """Note what is said; whether it is news."""
        news = high_watermark != self.said_high_watermark or log_start != self.said_log_start
        self.said_high_watermark = high_watermark
        self.said_log_start = log_start
        return news


Key = tuple[str | bytes, int]


class FetchSession:
    """The partitions of one client, first served first; those of a follower with what is new of them."""

    __slots__ = ("epoch", "identifier", "last_used", "news", "partitions", "uses_topic_ids")

    def __init__(self, identifier: int, uses_topic_ids: bool, now: float) -> None:
        self.identifier = identifier
        self.uses_topic_ids = uses_topic_ids
        self.epoch = 1
        self.last_used = now
        self.partitions: dict[Key, FetchedPartition] = {}
        self.news: FollowerNews | None = None

    def update(self, asked: Iterable[FetchedPartition], forgotten: Iterable[Key]) -> None:
        """Apply an incremental request."""
        for partition in asked:
            key = (partition.topic, partition.index)
            known = self.partitions.get(key)
            if known is None:
                self.partitions[key] = partition
            else:
                known.ask(partition)
            if self.news is not None:
                self.news.keys[key] = None
        for key in forgotten:
            self.partitions.pop(key, None)
            if self.news is not None:
                self.news.forget(key)
        if len(self.partitions) > limits.FETCH_SESSION_PARTITIONS_MAX:
            raise ApiError(ErrorCode.INVALID_REQUEST, "too many partitions in one fetch session")

    def served(self, key: Key) -> None:
        """It had data: it goes to the end, so that under a byte limit every partition has its turn."""
        if len(self.partitions) == 1:
            return
        partition = self.partitions.pop(key, None)
        if partition is not None:
            self.partitions[key] = partition

    def advance(self) -> None:
        """The epoch that the next request must carry."""
        self.epoch = 1 if self.epoch == _EPOCH_MAX else self.epoch + 1


class FetchSessions:
    """All sessions of this node."""

    def __init__(self, first: int, slots: int = limits.FETCH_SESSIONS_MAX) -> None:
        """`first` is random: a client of an earlier process life must not meet another's session by chance."""
        self._slots = slots
        self._sessions: dict[int, FetchSession] = {}
        self._next = max(1, first & _EPOCH_MAX)

    def __len__(self) -> int:
        return len(self._sessions)

    def __bool__(self) -> bool:
        return bool(self._sessions)

    def continue_session(self, identifier: int, epoch: int, uses_topic_ids: bool, now: float) -> FetchSession:
        """The session of an incremental request."""
        session = self._sessions.get(identifier)
        if session is None:
            raise ApiError(ErrorCode.FETCH_SESSION_ID_NOT_FOUND)
        if session.uses_topic_ids != uses_topic_ids:
            raise ApiError(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR)
        if session.epoch != epoch:
            raise ApiError(ErrorCode.INVALID_FETCH_SESSION_EPOCH)
        session.last_used = now
        session.advance()
        return session

    def create(self, partitions: Iterable[FetchedPartition], uses_topic_ids: bool, now: float) -> FetchSession | None:
        """A new session, or None when there is no room and nobody idle enough to make some."""
        if len(self._sessions) >= self._slots:
            oldest = min(self._sessions.values(), key=lambda session: session.last_used, default=None)
            if oldest is None or now - oldest.last_used < EVICTION_IDLE_SECONDS:
                return None
            self.close(oldest.identifier)
        identifier = self._next
        self._next = 1 if identifier == _EPOCH_MAX else identifier + 1
        session = FetchSession(identifier, uses_topic_ids, now)
        for partition in partitions:
            session.partitions[partition.topic, partition.index] = partition
        if len(session.partitions) > limits.FETCH_SESSION_PARTITIONS_MAX:
            return None
        self._sessions[identifier] = session
        return session

    def close(self, identifier: int) -> None:
        """Forget one. Idempotent."""
        session = self._sessions.pop(identifier, None)
        if session is not None and session.news is not None:
            session.news.close()
