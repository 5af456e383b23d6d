"""`hightide cluster …`: who is there, and is it well."""

from collections.abc import Sequence
from typing import Annotated

import typer

from hightide.cli.cluster_facts import BrokerFacts, ClusterFacts, ReplicaFacts, cluster_facts
from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT, Bootstrap, Output, Timeout
from hightide.cli.output import Format, Table, show
from hightide.cli.session import visit
from hightide.client.metadata import Partition

REPLICAS_SHOWN_MAX = 60  # by `status`; of a larger cluster it shows only the replicas with trouble

application = typer.Typer(no_args_is_help=True, help="The cluster: describe, status, replicas.")


def add_to(parent: typer.Typer) -> None:
    """Make it part of the command line."""
    parent.add_typer(application, name="cluster")


@application.command("describe")
def describe_cluster(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, output: Output = Format.TABLE, timeout: Timeout = TIMEOUT_DEFAULT
) -> None:
    """Show the cluster's id, its controller and its brokers."""
    facts = visit(bootstrap, timeout, cluster_facts)
    show(
        output,
        document={"cluster_id": facts.cluster_id, "brokers": facts.brokers},
        names=[str(broker["id"]) for broker in facts.brokers],
        tables=lambda: [_brokers(facts.brokers, title=f"cluster {facts.cluster_id}")],
    )


@application.command("status")
def cluster_status(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, output: Output = Format.TABLE, timeout: Timeout = TIMEOUT_DEFAULT
) -> None:
    """Show brokers, controllers and replicas, and whether all is well; exit code 1 when something is missing."""
    facts = visit(bootstrap, timeout, cluster_facts)
    partitions = facts.partitions
    offline = sorted(name for name, partition in partitions.items() if partition.leader < 0)
    short = sorted(name for name, partition in partitions.items() if _short_of_replicas(partition))
    healthy = not offline and not short
    summary = {
        "healthy": healthy,
        "cluster_id": facts.cluster_id,
        "controller": facts.metadata.controller_id,
        "controller_epoch": facts.controller_epoch,
        "topics": len(facts.metadata.topics),
        "partitions": len(partitions),
        "offline_partitions": offline,
        "under_replicated_partitions": short,
    }
    show(
        output,
        document={
            **summary, "brokers": facts.brokers, "controllers": facts.controllers, "replicas": facts.replicas
        },
        names=["healthy" if healthy else "unhealthy"],
        tables=lambda: _status_tables(summary, facts),
    )  # fmt: skip
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
    facts = visit(bootstrap, timeout, cluster_facts)
    replicas = [replica for replica in facts.replicas if not topics or replica["topic"] in topics]
    show(
        output,
        document=replicas,
        names=[f"{replica['topic']}-{replica['partition']}@{replica['broker']}" for replica in replicas],
        tables=lambda: [_replicas(replicas)],
    )


def _status_tables(summary: dict[str, object], facts: ClusterFacts) -> list[Table]:
    replicas = facts.replicas
    title = "replicas"
    if len(replicas) > REPLICAS_SHOWN_MAX:
        replicas = [replica for replica in replicas if not replica["in_sync"] or replica["log_end"] is None]
        title = f"replicas that are not in sync ({len(replicas)} of {len(facts.replicas)})"
        del replicas[REPLICAS_SHOWN_MAX:]
    return [
        Table(["WHAT", "VALUE"], [[name.replace("_", " "), value] for name, value in summary.items()]),
        _brokers(facts.brokers, title="brokers"),
        Table(
            ["CONTROLLER", "ROLE", "LOG END", "LAG"],
            [list(controller.values()) for controller in facts.controllers],
            title="controllers",
        ),
        _replicas(replicas, title=title),
    ]


def _brokers(brokers: Sequence[BrokerFacts], title: str) -> Table:
    return Table(
        ["BROKER", "ADDRESS", "RACK", "CONTROLLER", "LEADERS", "REPLICAS", "LOG BYTES", "DISK FREE"],
        [list(broker.values()) for broker in brokers],
        title=title,
    )


def _replicas(replicas: Sequence[ReplicaFacts], title: str = "") -> Table:
    return Table(
        ["TOPIC", "PARTITION", "BROKER", "ROLE", "IN SYNC", "LOG END", "HIGH WATERMARK", "LAG"],
        [list(replica.values()) for replica in replicas],
        title=title,
    )


def _short_of_replicas(partition: Partition) -> bool:
    return partition.leader >= 0 and len(partition.in_sync_replicas) < len(partition.replicas)
