"""Answers of a group coordinator on their way: to whom they go, and what they wait for.

A join may wait for minutes, and so does a follower's sync: their requests are kept by the coordinator as callers, one
object each, without a task. An answer that rests on records leaves when these are committed (R14).
"""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from hightide.errors import ErrorCode
from hightide.wire.message import ApiMessage

if TYPE_CHECKING:
    from hightide.coordination.decisions import Answer
    from hightide.node.sessions import Request
    from hightide.node.waiting import Deadlines

# What a client is told when the coordinator's own log refuses: Kafka's translation.
_TRANSLATED = {
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.REQUEST_TIMED_OUT: ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.NOT_LEADER_OR_FOLLOWER: ErrorCode.NOT_COORDINATOR,
    ErrorCode.KAFKA_STORAGE_ERROR: ErrorCode.NOT_COORDINATOR,
    ErrorCode.MESSAGE_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
    ErrorCode.RECORD_LIST_TOO_LARGE: ErrorCode.UNKNOWN_SERVER_ERROR,
}


def translated(code: ErrorCode) -> ErrorCode:
    """An error of the log as one of its coordinator."""
    return _TRANSLATED.get(code, code)


class Asked:
    """One request and how it is answered: `refuse` makes its answer of an error, `finish` its last touch."""

    __slots__ = ("_finish", "_is_parked", "_message", "_refuse", "_request")

    def __init__(
        self,
        request: "Request",
        refuse: Callable[[ErrorCode], ApiMessage],
        finish: Callable[[Any], ApiMessage] | None = None,
    ) -> None:
        self._request = request
        self._refuse = refuse
        self._finish = finish
        self._message: ApiMessage | None = None
        self._is_parked = False

    def answer(self, message: ApiMessage) -> None:
        """Answer, at once or when the handler returns."""
        if self._finish is not None:
            message = self._finish(message)
        self._message = message
        if self._is_parked:
            request = self._request
            request.answer(request.framed(message.encode(request.version)))

    def fail(self, code: ErrorCode) -> None:
        """Answer with an error."""
        self.answer(self._refuse(translated(code)))

    def park(self) -> ApiMessage | None:
        """What the handler returns: the answer if it is there, else nothing, and it comes later."""
        self._is_parked = True
        return self._message


class Uncommitted:
    """What waits for its records: a `CommitWaiter` and an `Expiring`. `done` is told once, NONE for success."""

    __slots__ = ("_deadline_slot", "_deadlines", "_done")

    def __init__(self, deadlines: "Deadlines", seconds: float, done: Callable[[ErrorCode], None]) -> None:
        self._deadlines = deadlines
        self._done: Callable[[ErrorCode], None] | None = done
        self._deadline_slot = deadlines.add(self, seconds)

    def committed(self, _number: int) -> None:
        """They are committed."""
        self.failed(0, ErrorCode.NONE)

    def failed(self, _number: int, code: ErrorCode) -> None:
        """Nobody can tell any more what becomes of the records."""
        self._deadlines.remove(self, self._deadline_slot)
        done, self._done = self._done, None
        if done is not None:
            done(code)

    def expired(self) -> None:
        """They may be committed yet; whoever asks again finds out."""
        self.failed(0, ErrorCode.REQUEST_TIMED_OUT)


def send(answers: "Sequence[Answer]", code: ErrorCode = ErrorCode.NONE) -> None:
    """Answer everybody, with an error when there is one."""
    for caller, message in answers:
        assert isinstance(caller, Asked)
        if code is ErrorCode.NONE:
            caller.answer(message)
        else:
            caller.fail(code)
