"""What `hightide group` tells about one group: its members, what it committed, and how far behind it is.

Lag in records is the end of the partition less the committed offset. Lag in seconds is the age of the oldest record
that is not consumed yet; zero when there is none. Both come from different answers of different brokers and from
clocks that differ, so neither is shown below zero.
"""

import asyncio
import time
from contextlib import aclosing
from typing import NamedTuple, TypedDict

from hightide.client.cluster import Cluster
from hightide.client.consumer import Consumer, Range
from hightide.client.groups import Groups
from hightide.client.offsets import EARLIEST, LATEST, list_offsets
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.types import TopicPartition
from hightide.wire.messages.consumer_protocol import ConsumerProtocolAssignment
from hightide.wire.primitives import Reader

CONSUMER_PROTOCOL = "consumer"
RECORDS_ASKED_AT_ONCE = 16  # first unconsumed records that are looked up side by side


class MemberFacts(TypedDict):
    """One member; `partitions` is None when its protocol is not the consumers'."""

    member: str
    instance: str | None
    client: str
    host: str
    partitions: list[str] | None


class OffsetFacts(TypedDict):
    """One partition that the group committed or has assigned; None where there is nothing to tell."""

    topic: str
    partition: int
    committed: int | None
    end: int | None
    lag: int | None
    lag_seconds: float | None
    member: str | None


class GroupFacts(NamedTuple):
    """One group."""

    name: str
    state: str
    protocol_type: str
    protocol: str
    members: list[MemberFacts]
    offsets: list[OffsetFacts]

    def document(self) -> dict[str, object]:
        """For JSON and YAML."""
        return {
            "group": self.name,
            "state": self.state,
            "protocol_type": self.protocol_type,
            "protocol": self.protocol,
            "lag": total_lag(self.offsets),
            "members": self.members,
            "offsets": self.offsets,
        }


def total_lag(offsets: list[OffsetFacts]) -> int:
    """Records behind over all partitions that are known."""
    return sum(each["lag"] or 0 for each in offsets)


async def gather_group(cluster: Cluster, name: str) -> GroupFacts:
    """Ask the coordinator, and the leaders of what the group reads; GROUP_ID_NOT_FOUND when nobody knows it."""
    groups = Groups(cluster)
    described, committed = await asyncio.gather(groups.describe(name), groups.committed(name))
    if described.group_state == "Dead" and not committed:
        raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND, f"there is no group {name!r}")
    owners: dict[TopicPartition, str] = {}
    members = []
    for member in described.members:
        assigned = _assigned(described.protocol_type, member.member_assignment)
        owners |= dict.fromkeys(assigned or (), member.member_id)
        members.append(
            MemberFacts(
                member=member.member_id,
                instance=member.group_instance_id,
                client=member.client_id,
                host=member.client_host,
                partitions=None if assigned is None else [str(where) for where in sorted(assigned)],
            )
        )
    offsets = await _offsets(cluster, committed, owners)
    return GroupFacts(
        name, described.group_state, described.protocol_type, described.protocol_data, members, offsets
    )  # fmt: skip


def _assigned(protocol_type: str, assignment: bytes) -> list[TopicPartition] | None:
    if protocol_type != CONSUMER_PROTOCOL:
        return None
    if not assignment:
        return []
    reader = Reader(assignment)
    try:
        version = reader.read_int16()
        message = ConsumerProtocolAssignment.read(
            reader, max(0, min(version, ConsumerProtocolAssignment.valid_versions[1]))
        )
    except ProtocolError:
        return None
    return [
        TopicPartition(topic.topic, partition)
        for topic in message.assigned_partitions
        for partition in topic.partitions
    ]


async def _offsets(
    cluster: Cluster, committed: dict[TopicPartition, int], owners: dict[TopicPartition, str]
) -> list[OffsetFacts]:
    everything = sorted({*committed, *owners})
    ends = await _ends(cluster, everything)
    behind = [where for where in everything if _lag(committed.get(where), ends.get(where))]
    seconds = await _ages(cluster, {where: Range(committed[where], ends[where]) for where in behind})
    return [
        OffsetFacts(
            topic=where.topic,
            partition=where.partition,
            committed=committed.get(where),
            end=ends.get(where),
            lag=(lag := _lag(committed.get(where), ends.get(where))),
            lag_seconds=None if lag is None else seconds.get(where, 0.0 if lag == 0 else None),
            member=owners.get(where),
        )
        for where in everything
    ]


def _lag(committed: int | None, end: int | None) -> int | None:
    return None if committed is None or end is None else max(0, end - committed)


async def _ends(cluster: Cluster, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
    """The end of each partition that there still is."""
    existing = await cluster.all_topics()
    there = [
        where
        for where in partitions
        if where.topic in existing.topics and where.partition in existing.topics[where.topic].partitions
    ]
    found = await list_offsets(cluster, dict.fromkeys(there, LATEST))
    return {where: answer.offset for where, answer in found.items()}


async def _ages(cluster: Cluster, unread: dict[TopicPartition, Range]) -> dict[TopicPartition, float]:
    """How long ago the first record of each range was written; nothing for a range that holds none any more."""
    slots = asyncio.Semaphore(RECORDS_ASKED_AT_ONCE)
    starts = await list_offsets(cluster, dict.fromkeys(unread, EARLIEST))

    async def age(where: TopicPartition, wanted: Range) -> tuple[TopicPartition, float] | None:
        first = max(wanted.start, starts[where].offset)
        async with slots, aclosing(Consumer(cluster, {where: Range(first, wanted.end)}).batches()) as batches:
            async for records in batches:
                return where, max(0.0, time.time() - records[0].timestamp / 1000)
        return None

    found = await asyncio.gather(*(age(where, wanted) for where, wanted in unread.items()))
    return dict(each for each in found if each is not None)
