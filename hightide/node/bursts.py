"""Requests that came together: produce requests to one partition are appended with one write.

A server with many clients that send single records finds dozens of requests each time it looks. Written one by one,
a tenth of its time goes into system calls for a few hundred bytes each. So whoever runs the node says when requests
of several connections begin and end; what is to be appended meanwhile is put aside and written at the end, and answered
then. Nothing happened before that: every question that a request may fail on is asked at the end, in the order in which
the requests came.
"""

from typing import Final

from hightide.limits import BURST_REQUESTS_MAX
from hightide.node.partitions import Partition
from hightide.node.ports import Clock
from hightide.node.stats import Stats
from hightide.node.waiting import Turn
from hightide.storage.log import Appended
from hightide.wire.records import Records

ALONE: Final = 1
FEW_REQUESTS: Final = 2  # in one burst: others will not come in a moment


class Produced:
    """One batch for one partition, and whoever waits for its answer."""

    __slots__ = ("records",)

    def __init__(self, records: Records) -> None:
        self.records = records

    def append(self) -> None:
        """Append it alone and answer, or say why not."""
        raise NotImplementedError

    def appended(self, partition: Partition, appended: Appended) -> None:
        """It was appended with others: answer, or wait for the commit."""
        raise NotImplementedError

    def give_up(self) -> None:
        """A bug of ours, which is being handled: nobody can tell what became of the batch."""
        raise NotImplementedError


class Burst:
    """`node.ports.Burst`: what is put aside between `begin` and `end`."""

    __slots__ = ("_clock", "_count", "_put_aside", "_stats", "_turn", "is_open")

    def __init__(self, clock: Clock, turn: Turn, stats: Stats) -> None:
        self.is_open = False
        self._clock = clock
        self._turn = turn
        self._stats = stats
        self._put_aside: dict[Partition, list[Produced]] = {}
        self._count = 0

    def begin(self) -> None:
        """Requests of several connections follow."""
        self.is_open = True

    def put_aside(self, partition: Partition, produced: Produced) -> None:
        """Append it at the end, or before the next where there are many."""
        if self._count >= BURST_REQUESTS_MAX:
            self.settle()
        same = self._put_aside.get(partition)
        if same is None:
            self._put_aside[partition] = [produced]
        else:
            same.append(produced)
        self._count += 1

    def end(self) -> None:
        """These were all."""
        self.settle()
        self.is_open = False

    def wake(self) -> None:
        """The answers have left: serve those who wait for few records, for which nothing is worth waiting."""
        self._turn.answers_left()

    def settle(self) -> None:
        """Append what was put aside so far."""
        if not self._count:
            return
        self._turn.expects_no_more = self._count <= FEW_REQUESTS
        put_aside, self._put_aside, self._count = self._put_aside, {}, 0
        for partition, produced in put_aside.items():
            if len(produced) == ALONE:
                produced[0].append()
            else:
                self._append(partition, produced)
        self._turn.expects_no_more = False

    def _append(self, partition: Partition, produced: list[Produced]) -> None:
        batches = [each.records for each in produced]
        now_ms = self._clock.wall_ms()
        first, count = 0, len(produced)
        while first < count:
            try:
                together = partition.append_together(batches, first, now_ms)
            except Exception:
                for each in produced[first:]:
                    each.give_up()
                return
            self._stats.produced_together += len(together)
            for appended in together:
                produced[first].appended(partition, appended)
                first += 1
            if first < count:
                produced[first].append()
                first += 1
