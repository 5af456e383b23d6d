"""Which value lies at which offset, as far as anybody proved it: from proven sends and all polls.

A send proves its place when it was acknowledged with acks=all. An acknowledgement with less may have come from a leader
that lost its log, an unknown one tells nothing, and both count as soon as someone read the value. Every poll counts,
whatever became of the operation it was part of: a broker may never show anyone what is not so.
"""

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from weakref import WeakKeyDictionary

from hightide.sim.history.operations import Mark, Poll, Send, Value
from hightide.sim.history.recorder import History
from hightide.types import NO_OFFSET, TopicPartition

Witness = Send | Poll


class VersionOrder:
    """One partition's order. `offsets` are those with a known value, rising; what is below `log_start` may be gone."""

    __slots__ = ("conflicts", "copies", "log_start", "offset_of", "offsets", "read", "value_at")

    def __init__(self) -> None:
        self.value_at: dict[int, tuple[Value, Witness]] = {}
        self.conflicts: dict[int, list[tuple[Value, Witness]]] = {}
        self.offset_of: dict[Value, int] = {}  # the lowest
        self.copies: dict[Value, dict[int, Witness]] = {}  # of values at several offsets
        self.read: set[Value] = set()
        self.log_start = 0
        self.offsets: Sequence[int] = ()

    def add(self, offset: int, value: Value, witness: Witness) -> None:
        """Somebody says that this value is there."""
        known = self.value_at.setdefault(offset, (value, witness))
        if known[0] != value:
            others = self.conflicts.setdefault(offset, [known])
            if all(value != other for other, _ in others):
                others.append((value, witness))
        lowest = self.offset_of.setdefault(value, offset)
        if lowest != offset:
            copies = self.copies.setdefault(value, {lowest: self._witness(lowest, value)})
            copies.setdefault(offset, witness)
            self.offset_of[value] = min(lowest, offset)

    def places(self, send: Send) -> list[int]:
        """Where its values are, as far as that is known, in the order in which they were sent."""
        return [self.offset_of[value] for value in send.values if value in self.offset_of]

    def between(self, before: int, after: int) -> Sequence[int]:
        """The offsets with a known value after one and before another, as far as retention has left them."""
        low = bisect_left(self.offsets, max(before + 1, self.log_start))
        return self.offsets[low : bisect_left(self.offsets, after, low)]

    def _witness(self, offset: int, value: Value) -> Witness:
        claims = self.conflicts.get(offset, [self.value_at[offset]])
        return next(witness for claimed, witness in claims if claimed == value)


_KEPT: WeakKeyDictionary[History, tuple[int, Mapping[TopicPartition, VersionOrder]]] = WeakKeyDictionary()


def version_orders(history: History) -> Mapping[TopicPartition, VersionOrder]:
    """The order of every partition that anybody touched; kept until something is recorded again."""
    kept = _KEPT.get(history)
    if kept is None or kept[0] != history.moments:
        kept = history.moments, _build(history)
        _KEPT[history] = kept
    return kept[1]


def _build(history: History) -> Mapping[TopicPartition, VersionOrder]:
    orders = {partition: VersionOrder() for partition in history.senders}
    for send in history.sends:
        if send.is_durable and send.offset != NO_OFFSET:
            for offset, value in enumerate(send.values, send.offset):
                orders[send.partition].add(offset, value, send)
    for poll in history.polls:
        for partition, offset, value in poll.records:
            order = orders.get(partition) or orders.setdefault(partition, VersionOrder())
            order.add(offset, value, poll)
            order.read.add(value)
    for told in history.observations:
        order = orders.get(told.partition) or orders.setdefault(told.partition, VersionOrder())
        if told.mark is Mark.LOG_START:
            order.log_start = max(order.log_start, told.offset)
    for order in orders.values():
        order.offsets = sorted(order.value_at)
    return orders
