"""K9 and K10: sends that go backwards, within one batch (K9) or from one to the next of the same producer (K10).

An idempotent producer's acknowledged values lie in the order of its calls, however many were in flight. Without
idempotence retries may overtake each other; still, what was acknowledged before the next send began comes first. A send
of unknown fate is judged by that second rule only: it may have arrived long after the producer gave it up.
"""

from collections import defaultdict
from itertools import pairwise

from hightide.sim.history.findings import Finding
from hightide.sim.history.known_before import KnownBefore
from hightide.sim.history.operations import Send, show
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import VersionOrder, version_orders
from hightide.types import NO_OFFSET, TopicPartition


def check_within(history: History) -> list[Finding]:
    """K9."""
    orders = version_orders(history)
    findings = []
    for send in history.sends:
        if len(send.values) == 1:
            continue
        offset_of, copies = orders[send.partition].offset_of, orders[send.partition].copies
        known = [
            (value, offset_of[value])
            for value in send.values
            if value in offset_of and (send.idempotent or value not in copies)
        ]
        for (first, before), (second, after) in pairwise(known):
            if after <= before:
                what = f"{show(first)} was sent before {show(second)} but is at offset {before}, behind {after}"
                findings.append(Finding("K9", str(send.partition), what, (send,)))
    return findings


def check_across(history: History) -> list[Finding]:
    """K10."""
    orders = version_orders(history)
    sends: defaultdict[tuple[str, TopicPartition], list[Send]] = defaultdict(list)
    for send in history.sends:
        sends[send.client, send.partition].append(send)
    findings = []
    for (_, partition), made in sends.items():
        findings += _backwards(made, orders[partition])
    return findings


def _backwards(sends: list[Send], order: VersionOrder) -> list[Finding]:
    ended = KnownBefore((send.ended, last, send) for send in sends if (last := _acknowledged(send, order)) is not None)
    findings = []
    highest: tuple[int, Send] | None = None  # of acknowledged idempotent sends that began earlier
    for send in sends:
        places = order.places(send)
        if not places:
            continue
        before = ended.at(send.begun)
        if send.idempotent and send.is_durable:
            before = max(filter(None, (before, highest)), key=lambda known: known[0], default=None)
        if before is not None and places[0] <= before[0]:
            what = f"offset {places[0]} was given to a later send than offset {before[0]}"
            findings.append(Finding("K10", str(send.partition), what, (before[1], send)))
        if send.idempotent and send.is_durable and (highest is None or places[-1] > highest[0]):
            highest = places[-1], send
    return findings


def _acknowledged(send: Send, order: VersionOrder) -> int | None:
    """The offset of the last value, if it was taken when the send ended: of a retry's copies only one is sure to be."""
    if not send.is_durable:
        return None
    if send.offset != NO_OFFSET:
        return send.offset + len(send.values) - 1
    return order.offset_of.get(send.values[-1]) if send.idempotent else None
