"""K3: a committed value below the highest offset read, which nobody ever read.

A reader goes over everything from where it starts to the highest offset it sees. Where it starts is known when it was
positioned at an offset; otherwise it goes on where its group or another reader was, so that everything below must have
been read by someone. What retention removed is excused.
"""

from bisect import bisect_right

from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import show
from hightide.sim.history.reading import Reading, Stint
from hightide.sim.history.recorder import History
from hightide.sim.history.version_order import version_orders
from hightide.types import NO_OFFSET


def check(history: History) -> list[Finding]:
    orders = version_orders(history)
    covered = {partition: _widest(stints) for partition, stints in Reading(history).stints.items()}
    findings = []
    for send in history.sends:
        if not send.is_durable or send.offset == NO_OFFSET:
            continue
        order = orders[send.partition]
        for offset, value in enumerate(send.values, send.offset):
            if value in order.read or offset < order.log_start:
                continue
            stint = _over(covered.get(send.partition, []), offset)
            if stint is not None and stint.poll is not None:
                what = f"{show(value)} is at offset {offset} and was never read, though {stint.highest} was"
                findings.append(Finding("K3", str(send.partition), what, (send, stint.poll)))
    return findings


def _widest(stints: list[Stint]) -> list[Stint]:
    """Those that no other one contains, by rising start and rising end."""
    widest: list[Stint] = []
    for stint in sorted(stints, key=lambda stint: (stint.start, -stint.highest)):
        if not widest or stint.highest > widest[-1].highest:
            widest.append(stint)
    return widest


def _over(stints: list[Stint], offset: int) -> Stint | None:
    index = bisect_right(stints, offset, key=lambda stint: stint.start)
    return stints[index - 1] if index and offset < stints[index - 1].highest else None
