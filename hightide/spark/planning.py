"""From offsets to tasks: what is gone is reported or clamped, what is large is split. Pure but for the reporting.

`failOnDataLoss`: records that were promised (by a start offset, by the last batch) and are no longer there end the
query with a sentence that says which; set to false, the query goes on with what is left, and the sentence goes to
the log.
"""

import logging
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

from hightide.spark.positions import named
from hightide.types import TopicPartition

log = logging.getLogger("hightide.spark")
_WHAT_TO_DO = (
    "Some data may have been lost because they are not available in Kafka any more; either the data was aged out by "
    "Kafka or the topic may have been deleted before all the data in the topic was processed."
)


class OffsetRange(NamedTuple):
    """What one task reads: `end` is exclusive."""

    partition: TopicPartition
    start: int
    end: int

    @property
    def size(self) -> int:
        """Offsets in it; compaction and markers may leave fewer records."""
        return self.end - self.start


class DataLossError(RuntimeError):
    """Records are gone that a query was to read, and `failOnDataLoss` is true."""


def report_loss(what: str, *, fail: bool) -> None:
    """Say what is gone: as an error, or in the log."""
    if fail:
        raise DataLossError(
            f"{what} {_WHAT_TO_DO} If you don't want your streaming query to fail on such cases, set the source option "
            '"failOnDataLoss" to "false".'
        )
    log.warning(
        "%s %s If you want your streaming query to fail on such cases, set the source option %s.",
        what,
        _WHAT_TO_DO,
        '"failOnDataLoss" to "true"',
    )


def plan_ranges(
    start: Mapping[TopicPartition, int],
    end: Mapping[TopicPartition, int],
    earliest: Mapping[TopicPartition, int],
    *,
    fail_on_data_loss: bool,
) -> list[OffsetRange]:
    """The ranges between two sets of offsets; partitions without a start are new and begin at their earliest."""
    gone = start.keys() - end.keys()
    if gone:
        report_loss(f"Partitions {named(gone)} have been deleted.", fail=fail_on_data_loss)
    ranges = []
    for where in sorted(end):
        first, last = start.get(where), end[where]
        begins = earliest.get(where, 0)
        if first is None:
            first = begins
            if begins > 0:
                what = f"Added partition {where} starts from {begins} instead of 0."
                report_loss(what, fail=fail_on_data_loss)
        if first > last:
            what = f"Partition {where} offset was changed from {first} to {last}."
            report_loss(what, fail=fail_on_data_loss)
            continue
        if first < begins and first < last:
            what = f"Offsets {first} to {min(begins, last) - 1} of partition {where} are gone: it begins at {begins}."
            report_loss(what, fail=fail_on_data_loss)
            first = min(begins, last)
        if first < last:
            ranges.append(OffsetRange(where, first, last))
    return ranges


def split_ranges(
    ranges: Sequence[OffsetRange], partitions_min: int | None, records_max: int | None
) -> list[OffsetRange]:
    """At most `records_max` offsets to a task, and about `partitions_min` tasks, large partitions being cut first."""
    pieces = [piece for each in ranges for piece in _cut(each, _pieces(each, records_max))]
    if partitions_min is None or len(pieces) >= partitions_min:
        return pieces
    total = sum(piece.size for piece in pieces)
    small = [piece for piece in pieces if _share(piece, total, partitions_min) == 1]
    large_total = total - sum(piece.size for piece in small)
    large_count = max(partitions_min - len(small), 1)
    return [
        part
        for piece in pieces
        for part in _cut(piece, 1 if piece in small else _share(piece, large_total, large_count))
    ]


def _pieces(whole: OffsetRange, records_max: int | None) -> int:
    return 1 if records_max is None else -(-whole.size // records_max)


def _share(piece: OffsetRange, total: int, count: int) -> int:
    return max(int(piece.size / total * count + 0.5), 1)


def _cut(whole: OffsetRange, count: int) -> list[OffsetRange]:
    """Equal parts; those without an offset are left out."""
    edges = [whole.start + whole.size * index // count for index in range(count + 1)]
    return [OffsetRange(whole.partition, first, last) for first, last in pairwise(edges) if first < last]


def limit_offsets(
    begin: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int], offsets_max: int
) -> dict[TopicPartition, int]:
    """How far a micro-batch of so many offsets goes: each partition in proportion, the small ones by one at least."""
    sizes = {where: last - begin[where] for where, last in end.items() if where in begin and last > begin[where]}
    total = sum(sizes.values())
    if total <= offsets_max:
        return dict(end)
    return {
        where: min(last, begin[where] + max(1, offsets_max * sizes[where] // total)) if where in sizes else last
        for where, last in end.items()
    }
