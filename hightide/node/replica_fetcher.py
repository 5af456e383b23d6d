"""Followers pull: one connection and one fetch session per leader and durability carries all their partitions.

The next Fetch leaves when the previous answer is written and, in a session of `fsync` topics, synced: its offsets are
what the leader credits (C17, C18, R25). A partition is listed when `Replica.next_fetch` says something else than the
session knows; a truncation or a new epoch changes that by itself. Records are appended from the receive buffer, without
a copy.
"""

import logging
from typing import TYPE_CHECKING, Final

from hightide.errors import ErrorCode, ProtocolError
from hightide.node.fetch_sessions import INITIAL_EPOCH, NO_SESSION
from hightide.node.follower_news import FULL_LOOK_SECONDS
from hightide.node.ports import Connection, Timer
from hightide.replication.events import FetchAnswered
from hightide.replication.fetching import NextFetch
from hightide.wire.follower_fetch import Answer, Listed, decode_answers, encode_request
from hightide.wire.framing import Frame

if TYPE_CHECKING:
    from asyncio import Task

    from hightide.node.node import Node
    from hightide.node.partitions import Partition

log = logging.getLogger("hightide.replication")

RECONNECT_SECONDS: Final = 0.1
HURRY_SECONDS: Final = 0.02  # the leader usually hears of the change too, and answers by itself
ANSWER_SECONDS: Final = 10.0  # beyond the wait that was asked for: then the connection is given up
LONG_AGO: Final = float("-inf")
SYNCED: Final = 1
REPLICATED: Final = 0

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
        self._unsure: dict[Key, None] = {}
        """What may have to be listed anew: the rest is looked at every `FULL_LOOK_SECONDS`."""
        self._looked_at = LONG_AGO
        self._unsynced: set[Key] = set()
        self._connection: Connection | None = None
        self._session_id = NO_SESSION
        self._session_epoch = INITIAL_EPOCH
        self._correlation_id = 0
        self._is_connecting = self._is_waiting = self._is_closed = self._reconnects_at_once = False
        self._timer: Timer | None = None
        self._deadline_slot = 0
        self._client_id = b"node-%d" % node.settings.node_id

    # ------------------------------------------------------------------ members

    def add(self, partition: "Partition") -> None:
        """Follow here from now on."""
        key = (partition.topic_id, partition.index)
        if key not in self._partitions:
            self._partitions[key] = partition
            partition.on_synced = lambda: self._partition_synced(key)
            self._await_sync(key, partition)  # what the former leader sent last may be on its way to the disk
        self._unsure[key] = None
        self._node.turn.soon(self.kick)
        if self._is_waiting and key not in self._listed:
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
            self._unsure[key] = None
            self._node.turn.soon(self.kick)
        return not self._partitions

    def close(self) -> None:
        """Nobody follows here any more."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        self._node.deadlines.remove(self, self._deadline_slot)
        if self._connection is not None:
            self._connection.close()

    # ------------------------------------------------------------------ asking

    def kick(self) -> None:
        """Ask, if nothing is under way and there is something to ask."""
        if self._is_closed or self._is_waiting or self._unsynced or not self._partitions:
            return
        if self._connection is None:
            if not self._is_connecting:
                self._connect()
            return
        self._ask()

    def _ask(self) -> None:
        now = self._node.clock.now()
        changed, forgotten = self._compared(now)
        if not self._listed and not changed:
            self._later(RECONNECT_SECONDS)
            return
        settings = self._node.settings
        wait_ms = settings.replica_fetch_wait_max_ms
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        request = encode_request(
            self._correlation_id,
            self._client_id,
            (settings.node_id, self._node.broker_epoch),
            (wait_ms, settings.replica_fetch_min_bytes, settings.replica_fetch_response_max_bytes),
            (self._session_id, self._session_epoch),
            _by_topic(changed),
            settings.replica_fetch_max_bytes,
            forgotten,
            SYNCED if self._synced else REPLICATED,
        )
        for key in forgotten:
            del self._listed[key]
        self._listed.update(changed)
        assert self._connection is not None
        self._is_waiting = True
        self._connection.send([request])
        self._deadline_slot = self._node.deadlines.add(self, wait_ms / 1000 + ANSWER_SECONDS)

    def _compared(self, now: float) -> tuple[dict[Key, NextFetch], list[Key]]:
        """What the session is to be told: partitions to list, again or for the first time, and those to forget."""
        keys = self._unsure
        if now - self._looked_at >= FULL_LOOK_SECONDS or self._node.follower_throttle.is_on:
            keys = dict.fromkeys((*self._partitions, *self._listed))
            self._looked_at = now
        self._unsure = {}
        changed: dict[Key, NextFetch] = {}
        forgotten: list[Key] = []
        for key in keys:
            partition = self._partitions.get(key)
            fetch = None if partition is None else self._wanted(partition, now)
            if fetch is not None:
                if self._listed.get(key) != fetch:
                    changed[key] = fetch
                continue
            if partition is not None:
                self._unsure[key] = None  # it waits for its time, its sync or its metadata
            if key in self._listed:
                forgotten.append(key)
        return changed, forgotten

    def _wanted(self, partition: "Partition", now: float) -> NextFetch | None:
        """What to ask for a partition; nothing while it is behind and has fetched more than it may."""
        fetch = partition.replica.next_fetch(now)
        if fetch is None or fetch.leader != self._leader:
            return None
        throttle = self._node.follower_throttle
        is_held = throttle.is_on and self._is_throttled(partition) and throttle.seconds_to_wait(now) > 0
        return None if is_held else fetch

    def _is_throttled(self, partition: "Partition") -> bool:
        own = self._node.settings.node_id
        return own in partition.throttled_following and own not in partition.replica.in_sync_replicas

    def _later(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._is_closed:
            self._timer = self._node.clock.call_later(seconds, self.kick)

    # ------------------------------------------------------------------ the connection

    def _connect(self) -> None:
        address = self._node.broker_address(self._leader)
        if address is None:
            log.debug("nobody knows where broker %d listens", self._leader)
            self._later(RECONNECT_SECONDS)
            return
        self._is_connecting = True
        self._node.spawn(self._node.network.connect(*address, self._take), self._connected)

    def _connected(self, connecting: "Task[Connection]") -> None:
        if connecting.cancelled():
            return
        self._is_connecting = False
        try:
            connection = connecting.result()
        except OSError as error:
            log.debug("broker %d can't be reached: %s", self._leader, error)
            self._later(RECONNECT_SECONDS)
            return
        if self._is_closed:
            connection.close()
            return
        self.kick()

    def _take(self, connection: Connection) -> "ReplicaFetcher":
        self._connection = connection
        return self

    def expired(self) -> None:
        """The leader did not answer in time."""
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
        self._forget_listed()

    def _forget_listed(self) -> None:
        self._listed.clear()
        self._looked_at = LONG_AGO

    def _answered(self) -> None:
        self._is_waiting = False
        self._node.deadlines.remove(self, self._deadline_slot)

    # ------------------------------------------------------------------ answers

    def frame(self, data: Frame) -> None:
        """One answer; its records die when this returns."""
        self._answered()
        try:
            answers = decode_answers(data)
        except ProtocolError as error:
            log.error("broker %d sent what is no fetch answer: %s", self._leader, error)
            if self._connection is not None:
                self._connection.close()
            return
        if answers.error_code:
            self._reset_session()
            self._later(RECONNECT_SECONDS)
            return
        self._session_id = answers.session_id
        self._session_epoch = self._session_epoch % 0x7FFFFFFF + 1 if answers.session_id else INITIAL_EPOCH
        now = self._node.clock.now()
        for answer in answers.partitions:
            self._take_answer(answer, now)
        if not answers.session_id:
            self._forget_listed()
        self.kick()

    def _take_answer(self, answer: Answer, now: float) -> None:
        error_code, records, diverging = answer.error_code, answer.records, answer.diverging
        key = (answer.topic_id, answer.partition)
        partition, asked = self._partitions.get(key), self._listed.get(key)
        if partition is None or asked is None:
            return
        self._unsure[key] = None
        error = ErrorCode(error_code) if error_code else ErrorCode.NONE
        if records is not None and self._is_throttled(partition):
            self._node.follower_throttle.took(len(records), now)
        partition.fetch_answered(
            FetchAnswered(
                asked.leader_epoch, asked.fetch_offset, now, error, diverging, answer.high_watermark, answer.log_start,
                records is not None,
            ),
            records,
        )  # fmt: skip
        if key in self._listed and (error_code or diverging is not None):
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


def _by_topic(changed: dict[Key, NextFetch]) -> list[tuple[bytes, list[Listed]]]:
    topics: dict[bytes, list[Listed]] = {}
    for (topic_id, index), (_, leader_epoch, offset, last_epoch, log_start, horizon) in changed.items():
        topics.setdefault(topic_id, []).append((index, leader_epoch, offset, last_epoch, log_start, horizon))
    return list(topics.items())


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
