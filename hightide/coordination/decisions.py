"""What a request leads to: records for the log, and answers that wait until everything they rest on is committed."""

from collections.abc import Callable
from typing import NamedTuple

from hightide.wire.message import ApiMessage, LogRecord

Caller = object
"""Who is to be answered: a token of the node's, which the machine keeps and gives back."""


class GroupRecord(NamedTuple):
    """One record of `__consumer_offsets`; without a value it is a tombstone."""

    key: LogRecord
    value: LogRecord | None


class Answer(NamedTuple):
    """A message for one caller."""

    caller: Caller
    message: ApiMessage


class Decision(NamedTuple):
    """The law of the coordinator: a decision with records has changed nothing yet.

    The node appends the records, hands each to `apply`, then calls `then`; if the append fails, whoever is in `answers`
    is told so, and the state is what it was. A decision without records has changed only what a coordinator may forget:
    who waits, until when, and a generation that nobody has an assignment of. `rests_on` is the log's end that must be
    committed before the answers leave, when there are no records of its own.
    """

    records: list[GroupRecord]
    answers: list[Answer]
    rests_on: int = 0
    then: Callable[[], None] | None = None


NOTHING = Decision([], [])
