"""The streaming side of the source: which offsets each micro-batch has, and nothing that outlives the process.

Spark keeps the offsets of every batch in its checkpoint as the JSON that we return, `{"orders": {"0": 17}}`, compares
them as text (so they are sorted), and asks for the initial offset again when it replays the first batch after a crash.
By then `latest` would be somewhere else. So the end of the first batch also says where it began (`@start`), and a
replay begins there: what Spark wrote before it ran the batch is the one place that both runs see.
"""

import time
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)

from hightide.spark.blocking import BlockingCluster
from hightide.spark.offsets import OffsetFinder, Offsets, from_json, only, to_json
from hightide.spark.options import SourceOptions
from hightide.spark.planning import limit_offsets, plan_ranges, report_loss, split_ranges
from hightide.spark.positions import named
from hightide.spark.tasks import RangePartition

if TYPE_CHECKING:
    import pyarrow as pa

STARTED_AT = "@start"  # no topic can have that name
Json = dict[str, Any]


class StreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """One streaming query's view of its topics. Only the options are pickled: executors read, the driver plans."""

    def __init__(self, options: SourceOptions) -> None:
        self._options = options
        self._reset()

    def _reset(self) -> None:
        self._cluster: BlockingCluster | None = None
        self._initial: Offsets | None = None
        self._latest: Offsets | None = None
        self._target: Offsets | None = None  # of Trigger.AvailableNow
        self._is_available_now = False
        self._last_trigger: float | None = None

    def __getstate__(self) -> Json:
        return {"_options": self._options}

    def __setstate__(self, state: Json) -> None:
        self._options = state["_options"]
        self._reset()

    # ------------------------------------------------------------------ what Spark asks for

    def initialOffset(self) -> Json:
        """Where a new query begins; asked for more than once, resolved once."""
        if self._initial is None:
            self._initial = self._finder.resolve(self._options.starting, starting=True)
        return to_json(self._initial)

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the options say about the size of a batch."""
        triggers = self._options.triggers
        if triggers.offsets_max is not None:
            return ReadMaxRows(triggers.offsets_max)
        if triggers.offsets_min is not None:
            return ReadMinRows(triggers.offsets_min)
        return ReadAllAvailable()

    def prepareForTriggerAvailableNow(self) -> None:
        """Read what is there now and end."""
        self._is_available_now = True
        self._target = None

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:
        """The end of the next batch; `start` itself when there is none."""
        begin = _offsets(start)
        latest = self._find_latest(begin)
        end = latest
        if not isinstance(limit, ReadAllAvailable):
            if self._must_wait(begin, latest):
                return start
            if self._options.triggers.offsets_max is not None:
                new = self._finder.earliest(latest.keys() - begin.keys())
                end = limit_offsets(new | begin, latest, self._options.triggers.offsets_max)
        if end == begin and STARTED_AT in start:
            return start
        is_first = self._initial is not None and STARTED_AT not in start and begin == self._initial
        return to_json(end) | ({STARTED_AT: to_json(begin)} if is_first else {})

    def reportLatestOffset(self) -> Json | None:
        """How far the topics are: with a batch's end it tells the lag."""
        return None if self._latest is None else to_json(self._latest)

    def partitions(self, start: Json, end: Json) -> list[InputPartition]:
        """The tasks of a batch."""
        begin, until = _offsets(end.get(STARTED_AT, start)), _offsets(end)
        options, fail = self._options, self._options.fail_on_data_loss
        there = self._finder.assigned(missing_ok=True)
        gone = until.keys() - there
        if gone:
            report_loss(f"Partitions {named(gone)} have been deleted.", fail=fail)
            begin, until = only(begin, there), only(until, there)
        earliest = self._finder.earliest(until)
        if not fail:
            until = self._without_lost_ends(begin, until)
        ranges = plan_ranges(begin, until, earliest, fail_on_data_loss=fail)
        pieces = split_ranges(ranges, options.partitions_min, options.records_per_partition_max)
        return [RangePartition(piece) for piece in pieces]

    def read(self, partition: InputPartition) -> "Iterator[pa.RecordBatch]":
        """What a task brings."""
        from hightide.spark.reading import read_range

        assert isinstance(partition, RangePartition)
        return read_range(partition.wanted, self._options)

    def commit(self, end: Json) -> None:
        """Nothing to do: Spark's checkpoint is the truth, and this comes a batch late."""

    def stop(self) -> None:
        """The query has ended."""
        if self._cluster is not None:
            self._cluster.close()
            self._cluster = None

    # ------------------------------------------------------------------ within

    @property
    def _finder(self) -> OffsetFinder:
        if self._cluster is None:
            assert self._options.client is not None
            self._cluster = BlockingCluster(self._options.client)
        return OffsetFinder(self._cluster, self._options)

    def _find_latest(self, begin: Offsets) -> Offsets:
        """Where the topics end, or ended when a query with Trigger.AvailableNow began."""
        if self._target is not None:
            self._latest = self._target
            return self._target
        finder = self._finder
        fail = self._options.fail_on_data_loss
        self._latest = finder.latest(finder.assigned(missing_ok=not fail), begin)
        for where, offset in self._latest.items():
            if offset < begin.get(where, 0):
                report_loss(f"Partition {where} offset was changed from {begin[where]} to {offset}.", fail=fail)
        if self._is_available_now:
            self._target = self._latest
        return self._latest

    def _must_wait(self, begin: Offsets, latest: Offsets) -> bool:
        """`minOffsetsPerTrigger`: wait for enough, not longer than `maxTriggerDelay`; the first batch never waits."""
        triggers = self._options.triggers
        if triggers.offsets_min is None or self._is_available_now:
            return False
        now = time.monotonic()
        available = sum(offset - begin.get(where, 0) for where, offset in latest.items())
        overdue = self._last_trigger is None or now - self._last_trigger >= triggers.delay_max
        if available < triggers.offsets_min and not overdue:
            return True
        self._last_trigger = now
        return False

    def _without_lost_ends(self, begin: Offsets, until: Offsets) -> Offsets:
        """Where a partition ends before a batch of the checkpoint does, the batch ends there too."""
        latest = self._finder.latest(until.keys(), until)
        lost = {where: latest[where] for where in until if latest[where] < until[where]}
        for where, last in lost.items():
            what = f"Offsets {max(last, begin.get(where, 0))} to {until[where] - 1} of partition {where} are gone."
            report_loss(what, fail=False)
        return {where: max(lost.get(where, last), min(begin.get(where, 0), last)) for where, last in until.items()}


def _offsets(text: Mapping[str, Any]) -> Offsets:
    return from_json({topic: numbers for topic, numbers in text.items() if topic != STARTED_AT})
