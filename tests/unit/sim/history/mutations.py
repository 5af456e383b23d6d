"""Single changes to a correct history, each of which breaks a promise; None where the history offers no place for it.

A mutation returns the numbers of the checkers that must report it. They change operations in place, before anything has
judged the history.
"""

from collections.abc import Callable, Iterator
from itertools import pairwise
from random import Random

from hightide.sim.history.operations import Mark, Poll, Polled, Send, Value
from hightide.sim.history.recorder import History
from hightide.types import NO_OFFSET, TopicPartition

Mutation = Callable[[History, Random], set[str] | None]
CHANGED = 10**9  # no model sends it


def lose_an_acknowledged_value(history: History, random: Random) -> set[str] | None:
    """Nobody ever reads it."""
    found = _finally_read(history)
    places = [
        (send, value)
        for send in _durable(history)
        for value in send.values
        if value in found.get(send.partition, {}) and send.offset >= _log_start(history, send.partition)
    ]
    if not places:
        return None
    send, value = random.choice(places)
    for poll in history.polls:
        poll.records = [record for record in poll.records if (record[0], record[2]) != (send.partition, value)]
    highest = max(
        (record.offset for poll in history.polls for record in poll.records if record[0] == send.partition), default=-1
    )
    return {"K3", "K4"} if highest > send.offset + send.values.index(value) else {"K4"}


def lose_a_value_that_was_read(history: History, random: Random) -> set[str] | None:
    """The final read misses it."""
    before = {(partition, value) for poll in _polls_of(history, final=False) for partition, _, value in poll.records}
    places = [
        (poll, index)
        for poll in _polls_of(history, final=True)
        for index, (partition, _, value) in enumerate(poll.records)
        if (partition, value) in before and _is_single(history, partition, value)
    ]
    if not places:
        return None
    poll, index = random.choice(places)
    poll.records = [*poll.records[:index], *poll.records[index + 1 :]]
    return {"K4"}


def duplicate_a_value(history: History, random: Random) -> set[str] | None:
    """An idempotent producer's value appears once more, behind everything else."""
    polls = [poll for poll in _polls_of(history, final=True) if poll.records]
    places = [
        record
        for poll in polls
        for record in poll.records
        if history.senders[record.partition][record.value].idempotent
    ]
    if not places:
        return None
    partition, _, value = random.choice(places)
    last = [poll for poll in polls if poll.records[0].partition == partition][-1]
    last.records = [*last.records, Polled(partition, last.records[-1].offset + 1000, value)]
    return {"K2"}


def swap_two_values(history: History, random: Random) -> set[str] | None:
    """One reader sees two acknowledged values in each other's place."""
    proven = {(send.partition, send.offset + index) for send in _durable(history) for index in range(len(send.values))}
    places = [
        (poll, index)
        for poll in history.polls
        for index, (one, two) in enumerate(pairwise(poll.records))
        if one[:2] in proven and two[:2] in proven
    ]
    if not places:
        return None
    poll, index = random.choice(places)
    records = list(poll.records)
    one, two = records[index], records[index + 1]
    records[index : index + 2] = [one._replace(value=two.value), two._replace(value=one.value)]
    poll.records = records
    return {"K1"}


def change_a_value(history: History, random: Random) -> set[str] | None:
    """One reader sees something else."""
    polls = [poll for poll in history.polls if poll.records]
    if not polls:
        return None
    poll = random.choice(polls)
    index = random.randrange(len(poll.records))
    poll.records = [*poll.records]
    poll.records[index] = poll.records[index]._replace(value=CHANGED)
    return {"K12"}


def go_back_in_a_poll(history: History, random: Random) -> set[str] | None:
    """A poll returns an earlier record once more."""
    polls = [poll for poll in history.polls if poll.records]
    if not polls:
        return None
    poll = random.choice(polls)
    poll.records = [*poll.records, random.choice(poll.records)]
    return {"K7"}


def go_back_to_an_earlier_poll(history: History, random: Random) -> set[str] | None:
    """A poll starts with the last record of the one before."""
    pairs = list(_successive(history))
    if not pairs:
        return None
    first, second = random.choice(pairs)
    second.records = [first.records[-1], *second.records]
    return {"K8"}


def skip_in_a_poll(history: History, random: Random) -> set[str] | None:
    """A poll leaves out a record in its middle, which the final read has."""
    found = _finally_read(history)
    places = [
        (poll, index)
        for poll in _polls_of(history, final=False)
        for index, (partition, offset, value) in enumerate(poll.records)
        if 0 < index < len(poll.records) - 1 and found.get(partition, {}).get(value) == offset
    ]
    if not places:
        return None
    poll, index = random.choice(places)
    poll.records = [*poll.records[:index], *poll.records[index + 1 :]]
    return {"K7"}


def acknowledge_an_offset_that_was_taken(history: History, random: Random) -> set[str] | None:
    """As by a leader that had forgotten its end."""
    durable = list(_durable(history))
    places = [
        (earlier, later)
        for earlier in durable
        for later in durable
        if earlier.partition == later.partition and earlier.ended < later.begun
    ]
    if not places:
        return None
    earlier, later = random.choice(places)
    later.offset = earlier.offset
    return {"K14"}


def swap_two_acknowledgements(history: History, random: Random) -> set[str] | None:
    """Of sends in flight together, as if the later one had been appended first: nobody read them otherwise."""
    places = [
        (one, two)
        for one, two in pairwise(send for send in _durable(history) if send.idempotent)
        if one.partition == two.partition and len(one.values) == len(two.values)
    ]
    if not places:
        return None
    one, two = random.choice(places)
    one.offset, two.offset = two.offset, one.offset
    moved = {(one.partition, value) for value in (*one.values, *two.values)}
    for poll in history.polls:
        poll.records = [record for record in poll.records if (record.partition, record.value) not in moved]
    return {"K10"}


def lower_a_mark(history: History, random: Random) -> set[str] | None:
    """ListOffsets tells a client less than before."""
    places = [
        (earlier.offset, later)
        for index, later in enumerate(history.observations)
        for earlier in history.observations[:index]
        if later.mark is earlier.mark is Mark.LATEST
        and later.client == earlier.client
        and later.partition == earlier.partition
        and earlier.offset > 0
    ]
    if not places:
        return None
    offset, later = random.choice(places)
    later.offset = random.randrange(offset)
    return {"K15"}


MUTATIONS: list[Mutation] = [
    lose_an_acknowledged_value,
    lose_a_value_that_was_read,
    duplicate_a_value,
    swap_two_values,
    change_a_value,
    go_back_in_a_poll,
    go_back_to_an_earlier_poll,
    skip_in_a_poll,
    acknowledge_an_offset_that_was_taken,
    swap_two_acknowledgements,
    lower_a_mark,
]


def _durable(history: History) -> Iterator[Send]:
    return (send for send in history.sends if send.is_durable and send.offset != NO_OFFSET)


def _polls_of(history: History, *, final: bool) -> Iterator[Poll]:
    return (poll for poll in history.polls if (poll.client == "final") == final)


def _finally_read(history: History) -> dict[TopicPartition, dict[Value, int]]:
    found: dict[TopicPartition, dict[Value, int]] = {}
    for poll in _polls_of(history, final=True):
        for partition, offset, value in poll.records:
            found.setdefault(partition, {})[value] = offset
    return found


def _log_start(history: History, partition: TopicPartition) -> int:
    starts = (
        told.offset for told in history.observations if told.mark is Mark.LOG_START and told.partition == partition
    )
    return max(starts, default=0)


def _is_single(history: History, partition: TopicPartition, value: Value) -> bool:
    """Whether it has no copies: an idempotent producer's."""
    return history.senders[partition][value].idempotent


def _successive(history: History) -> Iterator[tuple[Poll, Poll]]:
    """Polls of the same client and partition with nothing between them that excuses a jump."""
    for client in sorted({poll.client for poll in history.polls}):
        polls = [poll for poll in history.polls if poll.client == client]
        for first, second in pairwise(polls):
            moved = any(move.client == client and first.begun < move.begun < second.begun for move in history.positions)
            followed = first.records and second.records and not moved
            if followed and first.records[-1].partition == second.records[0].partition:
                yield first, second
