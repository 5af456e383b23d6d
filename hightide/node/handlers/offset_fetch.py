"""OffsetFetch (9), versions 1-10: how far groups have come.

Topics null (from version 2 on) means all that a group committed; version 7 asks for offsets that no open transaction
can change, which is all of them here; version 8 asks for several groups, version 10 names topics by id. A group nobody
knows and a partition nobody committed have offset -1, without an error (KAFKA.md, fact 5). Told when it is committed.
"""

from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from hightide.coordination.classic_group import CommittedOffset
from hightide.errors import ApiError, ErrorCode
from hightide.types import NO_EPOCH, ZERO_UUID, TopicPartition
from hightide.wire.messages.offset_fetch import (
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartition,
    OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
)

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from hightide.node.group_shards import GroupShard
    from hightide.node.node import Node
    from hightide.node.sessions import Request

GROUPS_FROM = 8
TOPIC_IDS_FROM = 10
GROUP_ERRORS_FROM = 2
UNKNOWN = -1


class Pending(NamedTuple):
    """What was read and is not committed yet."""

    shard: "GroupShard"
    end: int
    group: OffsetFetchResponseGroup


def handle(
    node: "Node", message: OffsetFetchRequest, request: "Request"
) -> "OffsetFetchResponse | Coroutine[None, None, OffsetFetchResponse]":
    """Read all groups at once; wait only for what is not committed yet."""
    version = request.version
    groups = message.groups if version >= GROUPS_FROM else [_only_group(message)]
    results, pending = [], []
    for asked in groups:
        result = OffsetFetchResponseGroup(group_id=asked.group_id)
        results.append(result)
        try:
            shard = node.coordinators.shard(asked.group_id)
        except ApiError as error:
            result.error_code = error.code
            continue
        result.topics = _read(node, shard, asked, by_id=version >= TOPIC_IDS_FROM)
        end = shard.machine.offsets.rests_on(asked.group_id)
        if not shard.is_committed(end):
            pending.append(Pending(shard, end, result))
    if pending:
        return _wait(pending, results, groups, version)
    return _response(results, groups, version)


async def _wait(
    pending: list[Pending],
    results: list[OffsetFetchResponseGroup],
    groups: list[OffsetFetchRequestGroup],
    version: int,
) -> OffsetFetchResponse:
    for shard, end, group in pending:
        try:
            await shard.committed(end)
        except ApiError as error:
            group.topics, group.error_code = [], error.code
    return _response(results, groups, version)


def _only_group(message: OffsetFetchRequest) -> OffsetFetchRequestGroup:
    topics = message.topics
    return OffsetFetchRequestGroup(
        group_id=message.group_id,
        topics=None
        if topics is None
        else [OffsetFetchRequestTopics(name=each.name, partition_indexes=each.partition_indexes) for each in topics],
    )


def _read(
    node: "Node", shard: "GroupShard", asked: OffsetFetchRequestGroup, *, by_id: bool
) -> list[OffsetFetchResponseTopics]:
    if asked.topics is None:
        return _everything(node, shard, asked.group_id, by_id=by_id)
    topics = []
    for topic in asked.topics:
        agreed = node.image.topics.get(topic.topic_id) if by_id else node.image.topic_named(topic.name)
        if by_id and agreed is None:
            partitions = [_partition(index, None, ErrorCode.UNKNOWN_TOPIC_ID) for index in topic.partition_indexes]
            topics.append(OffsetFetchResponseTopics(topic_id=topic.topic_id, partitions=partitions))
            continue
        name, topic_id = (topic.name, ZERO_UUID) if agreed is None else (agreed.name, agreed.topic_id)
        partitions = [
            _partition(index, shard.machine.offsets.fetch(asked.group_id, TopicPartition(name, index), topic_id))
            for index in topic.partition_indexes
        ]
        topics.append(OffsetFetchResponseTopics(name=name, topic_id=topic_id, partitions=partitions))
    return topics


def _everything(node: "Node", shard: "GroupShard", group_id: str, *, by_id: bool) -> list[OffsetFetchResponseTopics]:
    group = shard.machine.groups.get(group_id)
    topics: dict[str, OffsetFetchResponseTopics] = {}
    for place, offset in [] if group is None else group.offsets.items():
        agreed = node.image.topic_named(place.topic)
        topic_id = ZERO_UUID if agreed is None else agreed.topic_id
        if (by_id and agreed is None) or (ZERO_UUID not in (topic_id, offset.topic_id) and topic_id != offset.topic_id):
            continue  # of a topic that is gone
        topic = topics.get(place.topic)
        if topic is None:
            topic = topics[place.topic] = OffsetFetchResponseTopics(name=place.topic, topic_id=topic_id)
        topic.partitions.append(_partition(place.partition, offset))
    return list(topics.values())


def _partition(
    index: int, offset: CommittedOffset | None, code: ErrorCode = ErrorCode.NONE
) -> OffsetFetchResponsePartitions:
    if offset is None:
        return OffsetFetchResponsePartitions(
            partition_index=index, committed_offset=UNKNOWN, committed_leader_epoch=NO_EPOCH, error_code=code
        )
    return OffsetFetchResponsePartitions(
        partition_index=index,
        committed_offset=offset.offset,
        committed_leader_epoch=offset.leader_epoch,
        metadata=offset.metadata,
    )


def _response(
    results: list[OffsetFetchResponseGroup], groups: list[OffsetFetchRequestGroup], version: int
) -> OffsetFetchResponse:
    if version >= GROUPS_FROM:
        return OffsetFetchResponse(groups=results)
    (only,), (asked,) = results, groups
    if only.error_code and version < GROUP_ERRORS_FROM:
        only.topics = _failed(asked.topics or [], only.error_code)
    return OffsetFetchResponse(error_code=only.error_code, topics=[_older(topic) for topic in only.topics])


def _failed(topics: Iterable[OffsetFetchRequestTopics], code: int) -> list[OffsetFetchResponseTopics]:
    """Version 1 has an error per partition only."""
    return [
        OffsetFetchResponseTopics(
            name=topic.name,
            partitions=[_partition(index, None, ErrorCode(code)) for index in topic.partition_indexes],
        )
        for topic in topics
    ]


def _older(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic:
    return OffsetFetchResponseTopic(
        name=topic.name,
        partitions=[
            OffsetFetchResponsePartition(
                partition_index=partition.partition_index,
                committed_offset=partition.committed_offset,
                committed_leader_epoch=partition.committed_leader_epoch,
                metadata=partition.metadata,
                error_code=partition.error_code,
            )
            for partition in topic.partitions
        ],
    )
