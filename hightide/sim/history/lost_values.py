"""K4: acknowledged, and unread after the final catch-up; and what once was read and is gone then.

The final read comes after healing, by a fresh client, from the start to the end. Acknowledged values that no complete
final read followed are a finding too: nothing shows that they are still there.
"""

from collections import Counter

from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import OPEN, FinalRead, Send, Value, show
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import VersionOrder, version_orders
from hightide.types import TopicPartition


def check(history: History) -> list[Finding]:
    findings = _never_read_to_the_end(history)
    for read in history.final_reads:
        if read.ended != OPEN:
            findings += _gone(history, read)
    return findings


def _never_read_to_the_end(history: History) -> list[Finding]:
    begun: dict[TopicPartition, FinalRead] = {}
    for read in history.final_reads:
        if read.ended != OPEN:
            begun.update(dict.fromkeys(read.partitions, read))
    missed: Counter[TopicPartition] = Counter()
    for send in history.sends:
        if send.is_durable and (send.partition not in begun or send.ended > begun[send.partition].begun):
            missed[send.partition] += len(send.values)
    return [
        Finding("K4", str(partition), f"no complete final read follows the acknowledgement of {count} values")
        for partition, count in missed.items()
    ]


def _gone(history: History, read: FinalRead) -> list[Finding]:
    orders = version_orders(history)
    found: dict[TopicPartition, set[Value]] = {partition: set() for partition in read.partitions}
    for poll in history.polls:
        if poll.client == read.client:
            for partition, _, value in poll.records:
                if partition in found:
                    found[partition].add(value)
    findings = []
    missing: dict[tuple[TopicPartition, Value], None] = {}
    for send in history.sends:
        if send.is_durable and send.ended < read.begun and send.partition in found:
            there, order = found[send.partition], orders[send.partition]
            for value in send.values:
                if value not in there and _is_retained(order, value):
                    missing[send.partition, value] = None
                    what = f"{show(value)} was acknowledged{_place(order, value)} and is gone"
                    findings.append(_finding(send, read, what))
    return findings + _once_read(history, read, found, missing)


def _once_read(
    history: History,
    read: FinalRead,
    found: dict[TopicPartition, set[Value]],
    reported: dict[tuple[TopicPartition, Value], None],
) -> list[Finding]:
    orders = version_orders(history)
    findings = []
    for poll in history.polls:
        if poll.ended > read.begun:
            continue
        for partition, offset, value in poll.records:
            if partition not in found or value in found[partition] or (partition, value) in reported:
                continue
            if offset >= orders[partition].log_start:
                reported[partition, value] = None
                what = f"{show(value)} was read at offset {offset} and is gone"
                findings.append(Finding("K4", str(partition), what, (poll, read)))
    return findings


def _finding(send: Send, read: FinalRead, what: str) -> Finding:
    return Finding("K4", str(send.partition), what, (send, read))


def _is_retained(order: VersionOrder, value: Value) -> bool:
    """Whether retention has left it: certainly not below the log start, perhaps not if nobody knows where it is."""
    offset = order.offset_of.get(value)
    return order.log_start == 0 if offset is None else offset >= order.log_start


def _place(order: VersionOrder, value: Value) -> str:
    offset = order.offset_of.get(value)
    return "" if offset is None else f" at offset {offset}"
