"""The driver's questions to a cluster: which partitions there are, and which offsets a position means in each.

Answers may come from a leader that was just elected or from metadata that is a moment old; whoever knows a larger end
than the answer asks again a few times (`fetchOffset.numRetries`) before it believes that records are gone.
"""

import re
from collections.abc import Collection, Iterable, Mapping

from hightide.client.cluster import Cluster
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.client.retries import sleep
from hightide.errors import ApiError, ErrorCode
from hightide.spark.blocking import BlockingCluster
from hightide.spark.options import SourceOptions
from hightide.spark.positions import Kind, Position, named
from hightide.types import TopicPartition

Offsets = dict[TopicPartition, int]


class OffsetFinder:
    """Asks one cluster on behalf of one query."""

    def __init__(self, cluster: BlockingCluster, options: SourceOptions) -> None:
        self._cluster = cluster
        self._options = options

    def assigned(self, *, missing_ok: bool = False) -> set[TopicPartition]:
        """The partitions that the subscription means now; ValueError names what is not there, unless that is fine."""
        return self._cluster.run(lambda cluster: self._assigned(cluster, missing_ok))

    def resolve(self, position: Position, *, starting: bool) -> Offsets:
        """The offset of a position in every assigned partition."""
        where = self.assigned()
        if position.kind is Kind.TIMESTAMP:
            return self._by_time(dict.fromkeys(where, position.timestamp), position, starting)
        if position.kind is Kind.TIMESTAMPS:
            if position.per_partition.keys() != where:
                raise ValueError(
                    f"Partitions specified for Kafka timestamp based {'starting' if starting else 'ending'} offsets "
                    "don't match what are assigned. Maybe topic partitions are created or deleted while the query is "
                    "running, or you didn't specify all the partitions. "
                    f"Specified: {named(position.per_partition)} Assigned: {named(where)}"
                )
            return self._by_time(position.per_partition, position, starting)
        if position.kind is Kind.OFFSETS:
            if position.per_partition.keys() != where:
                raise ValueError(
                    f"Partitions specified for Kafka {'start' if starting else 'end'} offsets don't match what are "
                    "assigned. Maybe topic partitions are created or deleted while the query is running. Use -1 for "
                    f"latest, -2 for earliest. Specified: {named(position.per_partition)} Assigned: {named(where)}"
                )
            return self._named_or_given(position.per_partition)
        return self._listed(dict.fromkeys(where, EARLIEST if position.kind is Kind.EARLIEST else LATEST))

    def earliest(self, where: Collection[TopicPartition]) -> Offsets:
        """Where these partitions begin."""
        return self._listed(dict.fromkeys(where, EARLIEST))

    def latest(self, where: Collection[TopicPartition], known: Mapping[TopicPartition, int]) -> Offsets:
        """Where these partitions end; ends below what is known are asked for again before they are believed."""
        for attempt in range(self._options.offset_attempts):
            if attempt:
                self._cluster.run(lambda cluster: sleep(cluster.clock, self._options.offset_pause))
            found = self._listed(dict.fromkeys(where, LATEST))
            if all(found[each] >= known.get(each, 0) for each in found):
                break
        return found

    async def _assigned(self, cluster: Cluster, missing_ok: bool) -> set[TopicPartition]:
        wanted = self._options.subscription
        if wanted.pattern is not None:
            pattern = re.compile(wanted.pattern)
            everything = await cluster.retrying(cluster.all_topics)
            topics = [
                topic for name, topic in everything.topics.items() if pattern.fullmatch(name) and not topic.internal
            ]
            return {TopicPartition(topic.name, number) for topic in topics for number in topic.partitions}
        cluster.expire()  # partitions may have been added
        names = dict.fromkeys(where.topic for where in wanted.partitions) if wanted.partitions else wanted.topics
        found = set[TopicPartition]()
        for name in names:
            try:
                topic = await cluster.topic(name)
            except ApiError as error:
                if error.code is not ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                    raise
                if not missing_ok:
                    raise ValueError(f"topic {name} does not exist: create it first, or check its name") from error
                continue
            found |= {TopicPartition(name, number) for number in topic.partitions}
        missing = set(wanted.partitions) - found
        if missing and not missing_ok:
            raise ValueError(f"Option 'assign' names partitions that do not exist: {named(missing)}")
        return found.intersection(wanted.partitions) if wanted.partitions else found

    def _listed(self, wanted: Mapping[TopicPartition, int]) -> Offsets:
        if not wanted:
            return {}
        committed = self._options.read_committed
        found = self._cluster.run(lambda cluster: list_offsets(cluster, wanted, read_committed=committed))
        return {where: answer.offset for where, answer in found.items()}

    def _named_or_given(self, offsets: Mapping[TopicPartition, int]) -> Offsets:
        by_name = {where: offset for where, offset in offsets.items() if offset in (EARLIEST, LATEST)}
        below = sorted(where for where, offset in offsets.items() if offset < EARLIEST)
        if below:
            raise ValueError(f"offset {offsets[below[0]]} for {below[0]}: use -1 for latest, -2 for earliest")
        return dict(offsets) | self._listed(by_name)

    def _by_time(self, timestamps: Mapping[TopicPartition, int], position: Position, starting: bool) -> Offsets:
        found = self._listed(timestamps)
        too_young = sorted(where for where, offset in found.items() if offset < 0)
        if too_young and starting and not position.latest_when_too_young:
            where = too_young[0]
            raise ValueError(
                f"No offset matched from request of topic-partition {where} and timestamp {timestamps[where]}. "
                "Set startingOffsetsByTimestampStrategy to latest to begin at the end of such partitions."
            )
        return found | self._listed(dict.fromkeys(too_young, LATEST))


def to_json(offsets: Mapping[TopicPartition, int]) -> dict[str, dict[str, int]]:
    """Offsets as Spark keeps them: by topic and partition, in order, since Spark compares the text."""
    ordered: dict[str, dict[str, int]] = {}
    for where in sorted(offsets):
        ordered.setdefault(where.topic, {})[str(where.partition)] = offsets[where]
    return ordered


def from_json(text: Mapping[str, Mapping[str, int]]) -> Offsets:
    """The inverse of `to_json`."""
    return {
        TopicPartition(topic, int(partition)): offset
        for topic, numbers in text.items()
        for partition, offset in numbers.items()
    }


def only(offsets: Mapping[TopicPartition, int], where: Iterable[TopicPartition]) -> Offsets:
    """The offsets of these partitions, where known."""
    return {each: offsets[each] for each in where if each in offsets}
