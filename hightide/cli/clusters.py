"""`hightide cluster …`: who is there, and is it well."""

import asyncio
from typing import Annotated, TypedDict

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT, Bootstrap, Output, Timeout
from hightide.cli.output import Format, Table, show
from hightide.cli.session import visit
from hightide.client.admin import Admin
from hightide.client.cluster import Cluster
from hightide.client.metadata import Partition
from hightide.errors import ApiError

application = typer.Typer(no_args_is_help=True, help="The cluster: describe, status, replicas.")


def add_to(parent: typer.Typer) -> None:
    """Make it part of the command line."""
    parent.add_typer(application, name="cluster")


class BrokerFacts(TypedDict):
    """One broker; sizes are None when it did not tell."""

    id: int
    address: str
    rack: str | None
    controller: bool
    leaders: int
    replicas: int
    log_bytes: int | None
    disk_bytes_free: int | None


class ReplicaFacts(TypedDict):
    """One replica; numbers are None when its broker did not tell."""

    topic: str
    partition: int
    broker: int
    role: str
    in_sync: bool
    log_end: int | None
    high_watermark: int | None
    lag: int | None


@application.command("describe")
def describe_cluster(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, output: Output = Format.TABLE, timeout: Timeout = TIMEOUT_DEFAULT
) -> None:
    """Show the cluster's id, its controller and its brokers."""
    cluster_id, brokers = visit(bootstrap, timeout, _brokers)
    show(
        output,
        document={"cluster_id": cluster_id, "brokers": brokers},
        names=[str(broker["id"]) for broker in brokers],
        tables=lambda: [
            Table(
                ["BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADERS", "REPLICAS", "LOG BYTES", "DISK FREE"],
                [list(broker.values()) for broker in brokers],
                title=f"cluster {cluster_id}",
            )
        ],
    )


@application.command("status")
def cluster_status(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, output: Output = Format.TABLE, timeout: Timeout = TIMEOUT_DEFAULT
) -> None:
    """Show whether every partition has a leader and all its replicas; exit code 1 when one has not."""
    metadata = visit(bootstrap, timeout, Cluster.all_topics)
    partitions = {
        f"{topic.name}-{partition.number}": partition
        for topic in metadata.topics.values()
        for partition in topic.partitions.values()
    }
    offline = sorted(name for name, partition in partitions.items() if partition.leader < 0)
    short = sorted(name for name, partition in partitions.items() if _short_of_replicas(partition))
    healthy = not offline and not short
    document = {
        "healthy": healthy,
        "cluster_id": metadata.cluster_id,
        "brokers": len(metadata.brokers),
        "controller": metadata.controller_id,
        "topics": len(metadata.topics),
        "partitions": len(partitions),
        "offline_partitions": offline,
        "under_replicated_partitions": short,
    }
    show(
        output,
        document=document,
        names=["healthy" if healthy else "unhealthy"],
        tables=lambda: [
            Table(["WHAT", "VALUE"], [[name.replace("_", " "), value] for name, value in document.items()])
        ],
    )
    if not healthy:
        what = f"{len(offline)} partitions have no leader, {len(short)} lack replicas"
        raise CommandError(what, ExitCode.FAILED, "`hightide topic describe NAME` shows who is missing")


@application.command("replicas")
def cluster_replicas(
    topics: Annotated[
        list[str] | None, typer.Argument(metavar="[TOPIC]...", help="Topics by name; all when none is named.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Show every replica: its role, whether it is in sync, where its log ends, its high watermark and its lag."""
    replicas = visit(bootstrap, timeout, lambda cluster: _replicas(cluster, set(topics or ())))
    show(
        output,
        document=replicas,
        names=[f"{replica['topic']}-{replica['partition']}@{replica['broker']}" for replica in replicas],
        tables=lambda: [
            Table(
                ["TOPIC", "PARTITION", "BROKER", "ROLE", "IN SYNC", "LOG END", "HIGH WATERMARK", "LAG"],
                [list(replica.values()) for replica in replicas],
            )
        ],
    )


async def _replicas(cluster: Cluster, topics: set[str]) -> list[ReplicaFacts]:
    metadata = await cluster.all_topics()
    told = await asyncio.gather(*(_ends(cluster, broker_id) for broker_id in metadata.brokers))
    ends: dict[tuple[int, str, int], tuple[int, int]] = {}
    for found in told:
        ends |= found
    none: tuple[None, None] = (None, None)
    rows = []
    for topic in sorted(metadata.topics.values(), key=lambda topic: topic.name):
        if topics and topic.name not in topics:
            continue
        for partition in topic.partitions.values():
            leader_end = ends.get((partition.leader, topic.name, partition.number), none)[0]
            for broker in partition.replicas:
                end, high_watermark = ends.get((broker, topic.name, partition.number), none)
                rows.append(
                    ReplicaFacts(
                        topic=topic.name,
                        partition=partition.number,
                        broker=broker,
                        role="leader" if broker == partition.leader else "follower",
                        in_sync=broker in partition.in_sync_replicas,
                        log_end=end,
                        high_watermark=high_watermark,
                        lag=None if end is None or leader_end is None else max(0, leader_end - end),
                    )
                )
    return rows


async def _brokers(cluster: Cluster) -> tuple[str, list[BrokerFacts]]:
    described, everything = await asyncio.gather(Admin(cluster).describe_cluster(), cluster.all_topics())
    partitions = [partition for topic in everything.topics.values() for partition in topic.partitions.values()]
    ordered = sorted(described.brokers, key=lambda broker: broker.broker_id)
    disks = await asyncio.gather(*(_disk(cluster, broker.broker_id) for broker in ordered))
    brokers = [
        BrokerFacts(
            id=broker.broker_id,
            address=f"{broker.host}:{broker.port}",
            rack=broker.rack,
            controller=broker.broker_id == described.controller_id,
            leaders=sum(partition.leader == broker.broker_id for partition in partitions),
            replicas=sum(broker.broker_id in partition.replicas for partition in partitions),
            log_bytes=log_bytes,
            disk_bytes_free=free,
        )
        for broker, (log_bytes, free) in zip(ordered, disks, strict=True)
    ]
    return described.cluster_id, brokers


async def _disk(cluster: Cluster, broker_id: int) -> tuple[int | None, int | None]:
    """Bytes in logs and bytes free; a broker that does not answer is still shown."""
    try:
        directories = await Admin(cluster).describe_log_dirs(broker_id)
    except ApiError:
        return None, None
    sizes = (
        part.partition_size for directory in directories for topic in directory.topics for part in topic.partitions
    )
    free = [directory.usable_bytes for directory in directories if directory.usable_bytes >= 0]
    return sum(sizes), sum(free) if free else None


async def _ends(cluster: Cluster, broker_id: int) -> dict[tuple[int, str, int], tuple[int, int]]:
    """Log end and high watermark of a broker's replicas; nothing of one that does not answer or is no hightide."""
    try:
        directories = await Admin(cluster).describe_log_dirs(broker_id)
    except ApiError:
        return {}
    return {
        (broker_id, topic.name, part.partition_index): (part.log_end_offset, part.high_watermark)
        for directory in directories
        for topic in directory.topics
        for part in topic.partitions
        if part.log_end_offset >= 0
    }


def _short_of_replicas(partition: Partition) -> bool:
    return partition.leader >= 0 and len(partition.in_sync_replicas) < len(partition.replicas)
