"""Followers pull: one connection and one fetch session per leader and durability carries all their partitions.

The next Fetch leaves when the previous answer is written and, in a session of `fsync` topics, synced: its offsets are
what the leader credits (C17, C18, R25). A partition is listed when `Replica.next_fetch` says something else than the
session knows; a truncation or a new epoch changes that by itself. Records are appended from the receive buffer, without
a copy.
"""

import logging
from typing import TYPE_CHECKING

from hightide.errors import ErrorCode, ProtocolError
from hightide.node.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from hightide.node.ports import Connection, Timer
from hightide.replication.events import FetchAnswered
from hightide.replication.fetching import NextFetch
from hightide.wire.headers import RequestHeader, read_response_header
from hightide.wire.messages.fetch import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    FetchTopic,
    ForgottenTopic,
    PartitionData,
    ReplicaState,
)
from hightide.wire.primitives import Reader

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.partitions import Partition

log = logging.getLogger("hightide.replication")

FETCH = 1
VERSION = 17  # the first that carries our session's durability
RECONNECT_SECONDS = 0.1
HURRY_SECONDS = 0.02  # the leader usually hears of the change too, and answers by itself
ANSWER_SECONDS = 10.0  # beyond the wait that was asked for: then the connection is given up
SYNCED, REPLICATED = 1, 0

Key = tuple[bytes, int]


class ReplicaFetcher:
    """All partitions that follow one leader with one durability. `node.ports.Receiver` of its own connection."""

    def __init__(self, node: "Node", leader: int, *, synced: bool) -> None:
        self._node = node
        self._leader = leader
        self._synced = synced
        self._partitions: dict[Key, Partition] = {}
        self._listed: dict[Key, NextFetch | None] = {}
        """What the leader's session has; None is to be listed again."""
        self._asked: dict[Key, NextFetch] = {}
        self._unsynced: set[Key] = set()
        self._connection: Connection | None = None
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._correlation_id = 0
        self._is_connecting = self._is_waiting = self._is_closed = self._reconnects_at_once = False
        self._timer: Timer | None = None
        self._deadline: Timer | None = None

    # ------------------------------------------------------------------ members

    def add(self, partition: "Partition") -> None:
        """Follow here from now on."""
        key = (partition.topic_id, partition.index)
        if key not in self._partitions:
            self._partitions[key] = partition
            partition.on_synced = lambda: self._partition_synced(key)
            self._await_sync(key, partition)  # what the former leader sent last may be on its way to the disk
        self._node.turn.soon(self.kick)
        if self._is_waiting and key not in self._asked:
            self._node.clock.call_later(HURRY_SECONDS, self._hurry, self._correlation_id)

    def _hurry(self, correlation_id: int) -> None:
        """A partition was added while a request waits at the leader, for up to half a second: do not wait with it."""
        if self._is_waiting and self._correlation_id == correlation_id and self._connection is not None:
            self._reconnects_at_once = True
            self._connection.close()

    def remove(self, partition: "Partition") -> bool:
        """Follow no more; whether nobody is left."""
        key = (partition.topic_id, partition.index)
        if self._partitions.pop(key, None) is not None:
            partition.on_synced = None
            self._unsynced.discard(key)
            self._node.turn.soon(self.kick)
        return not self._partitions

    def close(self) -> None:
        """Nobody follows here any more."""
        self._is_closed = True
        for timer in (self._timer, self._deadline):
            if timer is not None:
                timer.cancel()
        if self._connection is not None:
            self._connection.close()

    # ------------------------------------------------------------------ asking

    def kick(self) -> None:
        """Ask, if nothing is under way and there is something to ask."""
        if self._is_closed or self._is_waiting or self._unsynced or not self._partitions:
            return
        if self._connection is None:
            if not self._is_connecting:
                self._is_connecting = True
                self._node.spawn(self._connect())
            return
        self._ask()

    def _ask(self) -> None:
        now = self._node.clock.now()
        wanted = {key: fetch for key, part in self._partitions.items() if (fetch := part.replica.next_fetch(now))}
        wanted = {key: fetch for key, fetch in wanted.items() if fetch.leader == self._leader}
        self._hold_throttled(wanted, now)
        forgotten = [key for key in self._listed if key not in wanted]
        changed = {key: fetch for key, fetch in wanted.items() if self._listed.get(key) != fetch}
        if not wanted and not forgotten:
            self._later(RECONNECT_SECONDS)
            return
        settings = self._node.settings
        request = FetchRequest(
            replica_state=ReplicaState(replica_id=settings.node_id, replica_epoch=self._node.broker_epoch),
            max_wait_ms=settings.replica_fetch_wait_max_ms,
            min_bytes=settings.replica_fetch_min_bytes,
            max_bytes=settings.replica_fetch_response_max_bytes,
            session_id=self._session_id,
            session_epoch=self._session_epoch,
            topics=_topics(changed, settings.replica_fetch_max_bytes),
            forgotten_topics_data=[ForgottenTopic(topic_id=topic, partitions=[index]) for topic, index in forgotten],
            session_durability=SYNCED if self._synced else REPLICATED,
        )
        for key in forgotten:
            del self._listed[key]
        self._listed.update(changed)
        self._asked = wanted
        self._send(request)
        self._deadline = self._node.clock.call_later(
            settings.replica_fetch_wait_max_ms / 1000 + ANSWER_SECONDS, self._give_up
        )

    def _hold_throttled(self, wanted: dict[Key, NextFetch], now: float) -> None:
        """Leave out the throttled that are behind, once they fetched more than they may."""
        throttle = self._node.follower_throttle
        if throttle.is_on and throttle.seconds_to_wait(now) > 0:
            for key in [key for key in wanted if self._is_throttled(self._partitions[key])]:
                del wanted[key]

    def _is_throttled(self, partition: "Partition") -> bool:
        own = self._node.settings.node_id
        return own in partition.throttled_following and own not in partition.replica.in_sync_replicas

    def _send(self, request: FetchRequest) -> None:
        assert self._connection is not None
        self._is_waiting = True
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        out = bytearray(4)
        RequestHeader(FETCH, VERSION, self._correlation_id, f"node-{self._node.settings.node_id}").write(out)
        request.write(out, VERSION)
        out[:4] = (len(out) - 4).to_bytes(4, "big")
        self._connection.send([out])

    def _later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._timer = self._node.clock.call_later(seconds, self.kick)

    # ------------------------------------------------------------------ the connection

    async def _connect(self) -> None:
        address = self._node.broker_address(self._leader)
        try:
            if address is None:
                raise OSError(f"nobody knows where broker {self._leader} listens")
            connection = await self._node.network.connect(*address, self._take)
        except OSError as error:
            log.debug("broker %d can't be reached: %s", self._leader, error)
            self._is_connecting = False
            self._later(RECONNECT_SECONDS)
            return
        self._is_connecting = False
        if self._is_closed:
            connection.close()
            return
        self.kick()

    def _take(self, connection: Connection) -> "ReplicaFetcher":
        self._connection = connection
        return self

    def _give_up(self) -> None:
        if self._connection is not None:
            log.warning("broker %d does not answer fetches: connecting again", self._leader)
            self._connection.close()

    def closed(self) -> None:
        """The connection is gone, and with it the session: the next request lists everything."""
        self._connection = None
        self._answered()
        self._reset_session()
        self._later(0.0 if self._reconnects_at_once else RECONNECT_SECONDS)
        self._reconnects_at_once = False

    def _reset_session(self) -> None:
        self._session_id, self._session_epoch = NO_SESSION, INITIAL_EPOCH
        self._listed.clear()

    def _answered(self) -> None:
        self._is_waiting = False
        if self._deadline is not None:
            self._deadline.cancel()
            self._deadline = None

    # ------------------------------------------------------------------ answers

    def frame(self, data: memoryview) -> None:
        """One answer; its records die when this returns."""
        self._answered()
        reader = Reader(data)
        try:
            read_response_header(reader, FETCH, VERSION)
            response = FetchResponse.read(reader, VERSION)
        except ProtocolError as error:
            log.error("broker %d sent what is no fetch answer: %s", self._leader, error)
            if self._connection is not None:
                self._connection.close()
            return
        if response.error_code:
            self._reset_session()
            self._later(RECONNECT_SECONDS)
            return
        self._session_id = response.session_id
        self._session_epoch = self._session_epoch % 0x7FFFFFFF + 1 if response.session_id else INITIAL_EPOCH
        if not response.session_id:
            self._listed.clear()
        for topic in response.responses:
            for part in topic.partitions:
                self._take_answer((topic.topic_id, part.partition_index), part)
        self.kick()

    def _take_answer(self, key: Key, part: PartitionData) -> None:
        partition, asked = self._partitions.get(key), self._asked.get(key)
        if partition is None or asked is None:
            return
        diverging = part.diverging_epoch
        records = part.records if part.records is not None and len(part.records) else None
        answer = FetchAnswered(
            asked.leader_epoch,
            asked.fetch_offset,
            self._node.clock.now(),
            ErrorCode(part.error_code),
            (diverging.epoch, diverging.end_offset) if diverging.epoch >= 0 or diverging.end_offset >= 0 else None,
            part.high_watermark,
            part.log_start_offset,
            records is not None,
        )
        if records is not None and self._is_throttled(partition):
            self._node.follower_throttle.took(len(records), self._node.clock.now())
        partition.fetch_answered(answer, None if records is None else memoryview(records))
        if key in self._listed and (part.error_code or answer.diverging is not None):
            # Listed again and answered in full (R25), or forgotten there if it is not asked for any more: a session
            # with an error in it is answered at once, every time.
            self._listed[key] = None
        self._await_sync(key, partition)

    def _await_sync(self, key: Key, partition: "Partition") -> None:
        if self._synced and partition.log.synced_end < partition.log.end and partition.offline_reason is None:
            self._unsynced.add(key)

    def _partition_synced(self, key: Key) -> None:
        if key in self._unsynced:
            partition = self._partitions[key]
            if partition.log.synced_end >= partition.log.end:
                self._unsynced.discard(key)
                if not self._unsynced:
                    self.kick()


def _topics(changed: dict[Key, NextFetch], max_bytes: int) -> list[FetchTopic]:
    topics: dict[bytes, FetchTopic] = {}
    for (topic_id, index), fetch in changed.items():
        topic = topics.setdefault(topic_id, FetchTopic(topic_id=topic_id))
        topic.partitions.append(
            FetchPartition(
                partition=index,
                current_leader_epoch=fetch.leader_epoch,
                fetch_offset=fetch.fetch_offset,
                last_fetched_epoch=fetch.last_fetched_epoch,
                log_start_offset=fetch.log_start,
                partition_max_bytes=max_bytes,
                tombstone_horizon=fetch.tombstone_horizon,
            )
        )
    return list(topics.values())


class ReplicaFetchers:
    """Every fetcher of this node: at most two per other broker."""

    def __init__(self, node: "Node") -> None:
        self._node = node
        self._fetchers: dict[tuple[int, bool], ReplicaFetcher] = {}
        self._of: dict[Key, tuple[int, bool]] = {}

    def follow(self, partition: "Partition") -> None:
        """The partition's role or durability may have changed: fetch from whom it follows now, or from nobody."""
        key = (partition.topic_id, partition.index)
        leader = partition.replica.leader
        is_follower = not partition.replica.is_leader and leader >= 0 and partition.offline_reason is None
        wanted = (leader, partition.is_synced_only) if is_follower else None
        current = self._of.get(key)
        if current is not None and current != wanted:
            self.forget(partition)
        if wanted is not None:
            self._of[key] = wanted
            if wanted not in self._fetchers:
                self._fetchers[wanted] = ReplicaFetcher(self._node, leader, synced=partition.is_synced_only)
            self._fetchers[wanted].add(partition)

    def forget(self, partition: "Partition") -> None:
        """Fetch for it no more."""
        current = self._of.pop((partition.topic_id, partition.index), None)
        if current is not None and self._fetchers[current].remove(partition):
            self._fetchers.pop(current).close()

    def close(self) -> None:
        """Fetch no more."""
        for fetcher in self._fetchers.values():
            fetcher.close()
        self._fetchers.clear()
        self._of.clear()
