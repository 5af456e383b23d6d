"""OffsetCommit (8), versions 2-10: how far a group has come, per partition.

Up to version 4 a client says how long its offsets are kept, version 6 adds leader epochs, version 7 static members,
version 10 names topics by id. Generation -1 without a member id is a consumer that assigns itself. Answered when the
offsets are committed on all in-sync replicas (C29).
"""

from functools import partial
from typing import TYPE_CHECKING

from hightide.coordination.offsets import refused_commit
from hightide.errors import ApiError, ErrorCode
from hightide.node.group_answers import Asked
from hightide.wire.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
)

if TYPE_CHECKING:
    from hightide.node.node import Node
    from hightide.node.sessions import Request
    from hightide.wire.message import ApiMessage

TOPIC_IDS_FROM = 10


def handle(node: "Node", message: OffsetCommitRequest, request: "Request") -> "ApiMessage | None":
    """Commit what belongs to topics that exist."""
    unknown: list[OffsetCommitResponseTopic] = []
    by_id = request.version >= TOPIC_IDS_FROM
    known = [topic for topic in message.topics if _resolve(node, topic, by_id, unknown)]
    message.topics = known
    asked = Asked(request, partial(_refused, message), partial(_with_unknown, unknown))
    try:
        shard = node.coordinators.shard(message.group_id)
    except ApiError as error:
        asked.fail(error.code)
        return asked.park()
    shard.decide(lambda machine, now, now_ms: machine.offsets.commit(message, asked, now, now_ms))
    return asked.park()


def _refused(message: OffsetCommitRequest, code: ErrorCode) -> OffsetCommitResponse:
    # A batch that is too large for the log is too large a commit.
    return refused_commit(
        message, ErrorCode.INVALID_COMMIT_OFFSET_SIZE if code is ErrorCode.UNKNOWN_SERVER_ERROR else code
    )


def _resolve(
    node: "Node", asked: OffsetCommitRequestTopic, by_id: bool, unknown: list[OffsetCommitResponseTopic]
) -> bool:
    """Give a topic both its name and its id; what does not exist is answered by itself. Whether anything is left."""
    topic = node.image.topics.get(asked.topic_id) if by_id else node.image.topic_named(asked.name)
    count = 0 if topic is None else len(topic.partitions)
    code = ErrorCode.UNKNOWN_TOPIC_ID if by_id and topic is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    missing = [part for part in asked.partitions if not 0 <= part.partition_index < count]
    if topic is not None:
        asked.name, asked.topic_id = topic.name, topic.topic_id
    if missing:
        unknown.append(
            OffsetCommitResponseTopic(
                name=asked.name,
                topic_id=asked.topic_id,
                partitions=[
                    OffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                    for part in missing
                ],
            )
        )
        asked.partitions = [part for part in asked.partitions if 0 <= part.partition_index < count]
    return bool(asked.partitions)


def _with_unknown(unknown: list[OffsetCommitResponseTopic], message: OffsetCommitResponse) -> OffsetCommitResponse:
    message.topics = message.topics + unknown
    return message
