"""Committed offsets: commit, fetch, delete, and what is forgotten with time or with its topic.

An offset belongs to a topic's id where the client's broker knew it: a topic that was deleted and created again begins
without. Offsets of a group without members are kept for `offsets.retention.minutes` after the last one left.
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from hightide.coordination.classic_group import CONSUMER, CommittedOffset, Group, Phase
from hightide.coordination.classic_groups import ClassicGroups
from hightide.coordination.decisions import Answer, Caller, Decision, GroupRecord
from hightide.coordination.subscriptions import subscribed_topics
from hightide.errors import ApiError, ErrorCode
from hightide.types import ZERO_UUID, TopicPartition
from hightide.wire.messages.group_log import GroupMetadataKey, OffsetCommitKey, OffsetCommitValue
from hightide.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

NO_COMMIT: Final = -1


class Offsets:
    """The committed offsets of one coordinator, which are kept with its groups."""

    def __init__(self, classic: ClassicGroups) -> None:
        self._classic = classic
        self.count = 0
        """How many there are, for the limit."""

    # ------------------------------------------------------------------ OffsetCommit

    def commit(self, request: OffsetCommitRequest, caller: Caller, now: float, now_ms: int) -> Decision:
        """Topics have their names here, and their ids where the broker knows them."""
        try:
            group = self._committing(request, now)
        except ApiError as error:
            return Decision([], [Answer(caller, refused_commit(request, error.code))])
        records: list[GroupRecord] = []
        topics = []
        for topic in request.topics:
            results = []
            for partition in topic.partitions:
                code = self._judge(group, topic.name, partition, len(records))
                if code is ErrorCode.NONE:
                    records.append(_record(request, topic.name, topic.topic_id, partition, now_ms))
                results.append(
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                )
            topics.append(OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=results))
        rests_on = 0 if group is None else group.written_end
        return Decision(records, [Answer(caller, OffsetCommitResponse(topics=topics))], rests_on)

    def _committing(self, request: OffsetCommitRequest, now: float) -> Group | None:
        group = self._classic.groups.get(request.group_id)
        generation = request.generation_id_or_member_epoch
        if group is not None:
            self._classic.check_commit(group, request.member_id, request.group_instance_id, generation, now)
        elif generation >= 0:
            raise ApiError(ErrorCode.ILLEGAL_GENERATION)
        elif len(self._classic.groups) >= self._classic.settings.groups_max:
            raise ApiError(ErrorCode.COORDINATOR_NOT_AVAILABLE)
        return group

    def _judge(self, group: Group | None, topic: str, partition: OffsetCommitRequestPartition, added: int) -> ErrorCode:
        settings = self._classic.settings
        if (
            len((partition.committed_metadata or "").encode("utf-8", "surrogatepass"))
            > settings.offset_metadata_max_bytes
        ):
            return ErrorCode.OFFSET_METADATA_TOO_LARGE
        is_new = group is None or TopicPartition(topic, partition.partition_index) not in group.offsets
        if is_new and self.count + added >= settings.offsets_max:
            return ErrorCode.POLICY_VIOLATION
        return ErrorCode.NONE

    def apply(self, key: OffsetCommitKey, value: OffsetCommitValue | None, end: int) -> None:
        """A record of an offset, loaded or just appended."""
        groups = self._classic.groups
        group = groups.get(key.group)
        place = TopicPartition(key.topic, key.partition)
        if value is None:
            if group is not None and group.offsets.pop(place, None) is not None:
                self.count -= 1
                group.written_end = max(end, group.written_end)
                if group.is_disposable:
                    del groups[key.group]
            return
        if group is None:
            group = groups[key.group] = Group(key.group)
        self.count += place not in group.offsets
        group.offsets[place] = CommittedOffset(
            value.offset,
            value.leader_epoch,
            value.metadata,
            value.commit_timestamp,
            value.expire_timestamp,
            value.topic_id,
        )
        group.written_end = end

    # ------------------------------------------------------------------ OffsetFetch

    def fetch(self, group_id: str, place: TopicPartition, topic_id: bytes = ZERO_UUID) -> CommittedOffset | None:
        """What a group committed for a partition of the topic that has this id now."""
        group = self._classic.groups.get(group_id)
        found = None if group is None else group.offsets.get(place)
        if found is None or (ZERO_UUID not in (topic_id, found.topic_id) and topic_id != found.topic_id):
            return None
        return found

    def rests_on(self, group_id: str) -> int:
        """The end of the log that must be committed before anything about the group is told."""
        group = self._classic.groups.get(group_id)
        return 0 if group is None else group.written_end

    # ------------------------------------------------------------------ deletion and expiry

    def delete(self, group_id: str, places: Iterable[TopicPartition]) -> tuple[list[GroupRecord], list[ErrorCode]]:
        """Tombstones for single offsets of a group, and what became of each; ApiError when it is the whole group's."""
        if not group_id:
            raise ApiError(ErrorCode.INVALID_GROUP_ID)
        group = self._classic.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        subscribed: frozenset[str] = frozenset()
        if group.phase is not Phase.EMPTY:
            if group.protocol_type != CONSUMER:
                raise ApiError(ErrorCode.NON_EMPTY_GROUP)
            subscribed = subscribed_topics(group)
        records: list[GroupRecord] = []
        codes = []
        for place in places:
            if place.topic in subscribed:
                codes.append(ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC)
                continue
            codes.append(ErrorCode.NONE)
            if place in group.offsets:
                records.append(tombstone(group_id, place))
        return records, codes

    def missing(self, group: Group, is_missing: Callable[[str, bytes], bool]) -> Iterator[GroupRecord]:
        """Tombstones for a group's offsets of topics that are gone."""
        for place, offset in group.offsets.items():
            if is_missing(place.topic, offset.topic_id):
                yield tombstone(group.group_id, place)

    def expired(self, group: Group, now_ms: int) -> Iterator[GroupRecord]:
        """Tombstones for what was kept long enough, and for the group itself when it has nothing else."""
        left = len(group.offsets)
        for place in self._expired_in(group, now_ms):
            left -= 1
            yield tombstone(group.group_id, place)
        if not left and group.phase is Phase.EMPTY and not group.pending and group.is_stored:
            yield GroupRecord(GroupMetadataKey(group=group.group_id), None)

    def _expired_in(self, group: Group, now_ms: int) -> Iterator[TopicPartition]:
        if group.phase is not Phase.EMPTY and not (group.phase is Phase.STABLE and group.protocol_type == CONSUMER):
            return
        since_empty = group.phase is Phase.EMPTY and group.protocol_type is not None and group.state_timestamp >= 0
        in_use: frozenset[str] = frozenset() if group.phase is Phase.EMPTY else subscribed_topics(group)
        retention = self._classic.settings.offsets_retention_ms
        for place, offset in group.offsets.items():
            if place.topic in in_use:
                continue
            if offset.expires_at >= 0:
                is_expired = now_ms >= offset.expires_at
            else:
                begin = max(group.state_timestamp, offset.committed_at) if since_empty else offset.committed_at
                is_expired = now_ms - begin >= retention
            if is_expired:
                yield place


def refused_commit(request: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    """The same error for everything."""
    return OffsetCommitResponse(
        topics=[
            OffsetCommitResponseTopic(
                name=topic.name,
                topic_id=topic.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=partition.partition_index, error_code=code)
                    for partition in topic.partitions
                ],
            )
            for topic in request.topics
        ]
    )


def tombstone(group_id: str, place: TopicPartition) -> GroupRecord:
    """The record that forgets an offset."""
    return GroupRecord(OffsetCommitKey(group=group_id, topic=place.topic, partition=place.partition), None)


def _record(
    request: OffsetCommitRequest, topic: str, topic_id: bytes, partition: OffsetCommitRequestPartition, now_ms: int
) -> GroupRecord:
    retention = request.retention_time_ms
    return GroupRecord(
        OffsetCommitKey(group=request.group_id, topic=topic, partition=partition.partition_index),
        OffsetCommitValue(
            offset=partition.committed_offset,
            leader_epoch=partition.committed_leader_epoch,
            metadata=partition.committed_metadata or "",
            commit_timestamp=now_ms,
            expire_timestamp=now_ms + retention if retention >= 0 else -1,
            topic_id=topic_id,
        ),
    )
