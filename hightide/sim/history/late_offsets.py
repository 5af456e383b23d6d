"""K14: an offset at or below one that was known before the send began: a log that forgot its end.

Known are offsets acknowledged with acks=all, read, or below a mark that a broker stated. The send's own offset is the
acknowledged one, or where the value was read: whatever became of the send, its value was not there before it began.
"""

from collections import defaultdict

from hightide.sim.history.findings import Finding
from hightide.sim.history.known_before import KnownBefore
from hightide.sim.history.operations import Operation, show
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import version_orders
from hightide.types import NO_OFFSET, TopicPartition


def check(history: History) -> list[Finding]:
    orders = version_orders(history)
    known = {partition: KnownBefore(facts) for partition, facts in _ends(history).items()}
    findings = []
    for send in history.sends:
        places = orders[send.partition].places(send)
        before = known[send.partition].at(send.begun) if places else None
        if before is not None and places[0] < before[0]:
            what = f"{show(send.values[0])} is at offset {places[0]}, but the end was {before[0]} before it was sent"
            findings.append(Finding("K14", str(send.partition), what, (before[1], send)))
    return findings


def _ends(history: History) -> dict[TopicPartition, list[tuple[int, int, Operation]]]:
    """For every partition: (when, an end it had by then, who knew)."""
    ends: defaultdict[TopicPartition, list[tuple[int, int, Operation]]] = defaultdict(list)
    for send in history.sends:
        if send.is_durable and send.offset != NO_OFFSET:
            ends[send.partition].append((send.ended, send.offset + len(send.values), send))
    for poll in history.polls:
        highest: dict[TopicPartition, int] = {}
        for partition, offset, _ in poll.records:
            if offset >= highest.get(partition, 0):
                highest[partition] = offset + 1
        for partition, end in highest.items():
            ends[partition].append((poll.ended, end, poll))
    for told in history.observations:
        ends[told.partition].append((told.ended, told.offset, told))
    return ends
