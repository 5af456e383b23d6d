"""DeleteTopics, by name or by id. A deleted topic's id never comes back."""

from collections import Counter

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.decision import Decision, View
from hightide.metadata.entities import Topic
from hightide.types import ZERO_UUID
from hightide.wire.message import LogRecord
from hightide.wire.messages.delete_topics import (
    DeletableTopicResult,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    DeleteTopicState,
)
from hightide.wire.messages.metadata_log import RemoveTopicRecord

FIRST_VERSION_THAT_KNOWS_DISABLED = 3


def delete_topics(view: View, request: DeleteTopicsRequest, version: int) -> Decision[DeleteTopicsResponse]:
    """Records and results, in the order of the request; each topic stands alone."""
    wishes = list(request.topics) or [DeleteTopicState(name=name) for name in request.topic_names]
    names = Counter(wish.name for wish in wishes if wish.name is not None)
    ids = Counter(_resolved_id(view, wish) for wish in wishes)
    records: list[LogRecord] = []
    results = []
    for wish in wishes:
        result = DeletableTopicResult(name=wish.name, topic_id=wish.topic_id, error_message=None)
        try:
            _check_wish(view, wish, version)
            if wish.name is not None and names[wish.name] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, "Duplicate topic name.")
            topic = _found(view, wish)
            if ids[topic.topic_id] > 1:
                raise ApiError(ErrorCode.INVALID_REQUEST, _duplicate_id(wish))
            result.name, result.topic_id = topic.name, topic.topic_id
            records.append(RemoveTopicRecord(topic_id=topic.topic_id))
        except ApiError as error:
            result.error_code, result.error_message = error.code, error.message
        results.append(result)
    return Decision(records, DeleteTopicsResponse(responses=results))


def _check_wish(view: View, wish: DeleteTopicState, version: int) -> None:
    if not view.settings.delete_topic_enable:
        if version < FIRST_VERSION_THAT_KNOWS_DISABLED:
            raise ApiError(ErrorCode.INVALID_REQUEST, "This version does not support topic deletion.")
        raise ApiError(ErrorCode.TOPIC_DELETION_DISABLED, "Topic deletion is disabled.")
    if wish.name is None and wish.topic_id == ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "Neither topic name nor id were specified.")
    if wish.name is not None and wish.topic_id != ZERO_UUID:
        raise ApiError(ErrorCode.INVALID_REQUEST, "You may not specify both topic name and topic id.")


def _found(view: View, wish: DeleteTopicState) -> Topic:
    topic = view.image.topic_named(wish.name) if wish.name is not None else view.image.topics.get(wish.topic_id)
    if topic is not None:
        return topic
    if wish.name is not None:
        raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "This server does not host this topic-partition.")
    raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID, "This server does not host this topic ID.")


def _resolved_id(view: View, wish: DeleteTopicState) -> bytes | None:
    return wish.topic_id if wish.name is None else view.image.topic_ids.get(wish.name)


def _duplicate_id(wish: DeleteTopicState) -> str:
    if wish.name is None:
        return "Duplicate topic id."
    return "The provided topic name maps to an ID that was already supplied."
