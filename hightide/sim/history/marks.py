"""K15: high watermark, last stable offset or ListOffsets' latest go back.

Within one leader epoch for everyone, in real time; over leader epochs for ListOffsets and one client (see `Mark`). A
leader that was cut off may tell other clients an old, lower number: that is late, not wrong.
"""

from collections import defaultdict

from hightide.sim.history.findings import Finding
from hightide.sim.history.known_before import KnownBefore
from hightide.sim.history.operations import Mark, Observation
from hightide.sim.history.recorder import History
from hightide.types import NO_EPOCH

_LISTED = (Mark.LATEST, Mark.LATEST_STABLE)


def check(history: History) -> list[Finding]:
    comparable: defaultdict[tuple[object, ...], list[Observation]] = defaultdict(list)
    for told in history.observations:
        if told.mark is Mark.LOG_START:
            continue
        if told.leader_epoch != NO_EPOCH:
            comparable[told.partition, told.mark, told.leader_epoch].append(told)
        if told.mark in _LISTED:
            comparable[told.partition, told.mark, told.client].append(told)
    findings: dict[Observation, Finding] = {}
    for group in comparable.values():
        known = KnownBefore((told.ended, told.offset, told) for told in group)
        for told in group:
            before = known.at(told.begun)
            if before is not None and told.offset < before[0]:
                what = f"{told.mark} went back from {before[0]} to {told.offset}"
                findings[told] = Finding("K15", str(told.partition), what, (before[1], told))
    return list(findings.values())
