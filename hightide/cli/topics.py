"""`hightide topic …`: list, create, describe, alter, delete."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Annotated

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT, Bootstrap, Output, Settings, Timeout, Yes
from hightide.cli.outcomes import conclude
from hightide.cli.output import Format, Table, say, show
from hightide.cli.server import split_setting
from hightide.cli.session import existing_topic, visit
from hightide.cli.topic_facts import TopicFacts, gather, replication_factor
from hightide.client.admin import BROKERS_CHOICE, Admin, NewTopic, Outcomes
from hightide.client.cluster import Cluster
from hightide.client.configs import Resource, ResourceType, alter_configs
from hightide.client.metadata import Topic
from hightide.errors import ApiError, ErrorCode
from hightide.types import format_uuid

application = typer.Typer(no_args_is_help=True, help="Topics: list, create, describe, alter, delete.")


def add_to(parent: typer.Typer) -> None:
    """Make it part of the command line."""
    parent.add_typer(application, name="topic")


Names = Annotated[list[str], typer.Argument(metavar="NAME…", help="Topics by name.")]


@application.command("list")
def list_topics(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    internal: Annotated[bool, typer.Option("--internal", help="Also those of the cluster itself.")] = False,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Show all topics."""
    metadata = visit(bootstrap, timeout, Cluster.all_topics)
    topics = [topic for _, topic in sorted(metadata.topics.items()) if internal or not topic.internal]
    show(
        output,
        document=[
            {
                "name": topic.name,
                "id": format_uuid(topic.id),
                "internal": topic.internal,
                "partitions": len(topic.partitions),
                "replication_factor": replication_factor(topic),
            }
            for topic in topics
        ],
        names=[topic.name for topic in topics],
        tables=lambda: [
            Table(
                ["NAME", "PARTITIONS", "REPLICAS"],
                [[topic.name, len(topic.partitions), replication_factor(topic)] for topic in topics],
            )
        ],
    )


@application.command("create")
def create_topics(
    names: Names,
    partitions: Annotated[int | None, typer.Option("-p", "--partitions", min=1, help="How many partitions.")] = None,
    replicas: Annotated[
        int | None, typer.Option("-r", "--replication-factor", min=1, help="How many replicas of each.")
    ] = None,
    settings: Settings = None,
    if_not_exists: Annotated[bool, typer.Option("--if-not-exists", help="A topic that is there is no error.")] = False,
    validate_only: Annotated[bool, typer.Option("--validate-only", help="Only ask whether it could be done.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Create topics. What is not said is up to the broker's defaults."""
    configs = dict(map(split_setting, settings or ()))
    wanted = [NewTopic(name, partitions or BROKERS_CHOICE, replicas or BROKERS_CHOICE, configs) for name in names]
    outcomes = visit(
        bootstrap, timeout, lambda cluster: Admin(cluster).create_topics(wanted, validate_only=validate_only)
    )
    if if_not_exists:
        outcomes = {name: None if _exists(error) else error for name, error in outcomes.items()}
    conclude(output, "topic", "valid" if validate_only else "created", outcomes)


@application.command("describe")
def describe_topics(
    names: Names,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Show partitions, leaders, replicas, offsets, sizes and own settings of topics."""
    facts = visit(bootstrap, timeout, _describing(names))
    show(
        output,
        document=facts,
        names=[f"{topic['name']}-{partition['partition']}" for topic in facts for partition in topic["partitions"]],
        tables=lambda: [_description(topic) for topic in facts],
    )


@application.command("alter")
def alter_topic(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A topic by name.")],
    partitions: Annotated[
        int | None, typer.Option("-p", "--partitions", min=1, help="More of them: this many.")
    ] = None,
    settings: Settings = None,
    unset: Annotated[list[str] | None, typer.Option("--unset", metavar="KEY", help="Back to the default.")] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Give a topic more partitions or other settings. All of it is checked before any of it is done."""
    changes: dict[str, str | None] = dict(map(split_setting, settings or ()))
    changes.update(dict.fromkeys(unset or ()))
    if partitions is None and not changes:
        raise CommandError("nothing to alter", ExitCode.USAGE, "say --partitions, --set or --unset")

    async def work(cluster: Cluster) -> Outcomes:
        topic = await existing_topic(cluster, name)
        for validate_only in (True, False):
            if changes:
                await alter_configs(cluster, Resource(ResourceType.TOPIC, name), changes, validate_only=validate_only)
            if partitions is not None:
                outcomes = await Admin(cluster).create_partitions({name: partitions}, validate_only=validate_only)
                if outcomes[name] is not None:
                    return outcomes
        if partitions is not None:
            say(f"{name} grows from {len(topic.partitions)} to {partitions} partitions: keys now go to other ones")
        return {name: None}

    conclude(output, "topic", "altered", visit(bootstrap, timeout, work))


@application.command("delete")
def delete_topics(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Delete topics with all their records. Shows what would be lost; --yes does it."""
    if not yes:
        _show_plan(output, visit(bootstrap, timeout, _describing(names)))
        raise CommandError("nothing was deleted", ExitCode.NOT_CONFIRMED, "the same command with --yes deletes")

    async def work(cluster: Cluster) -> Outcomes:
        for name in names:
            await existing_topic(cluster, name)
        return await Admin(cluster).delete_topics(names)

    conclude(output, "topic", "deleted", visit(bootstrap, timeout, work))


def _describing(names: Sequence[str]) -> Callable[[Cluster], Awaitable[list[TopicFacts]]]:
    async def work(cluster: Cluster) -> list[TopicFacts]:
        topics: list[Topic] = [await existing_topic(cluster, name) for name in names]
        return await gather(cluster, topics)

    return work


def _description(topic: TopicFacts) -> Table:
    settings = "  ".join(f"{name}={value}" for name, value in topic["settings"].items())
    title = f"{topic['name']}  id {topic['id']}"
    return Table(
        ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END", "BYTES", "CLUSTER ID"],
        [
            [
                partition["partition"],
                partition["leader"],
                partition["leader_epoch"],
                partition["replicas"],
                partition["in_sync_replicas"],
                partition["start"],
                partition["high_watermark"],
                partition["bytes"],
                partition["partition_cluster_id"],
            ]
            for partition in topic["partitions"]
        ],
        title=f"{title}\nsettings: {settings}" if settings else title,
    )


def _show_plan(output: Format, facts: Sequence[TopicFacts]) -> None:
    plan = [
        {
            "name": topic["name"],
            "partitions": len(topic["partitions"]),
            "records": sum((p["high_watermark"] or 0) - (p["start"] or 0) for p in topic["partitions"]),
            "bytes": sum(p["bytes"] or 0 for p in topic["partitions"]),
        }
        for topic in facts
    ]
    show(
        output,
        document={"delete": plan},
        names=[topic["name"] for topic in facts],
        tables=lambda: [
            Table(
                ["TOPIC", "PARTITIONS", "OFFSETS", "BYTES"],
                [list(each.values()) for each in plan],
                title="would delete, with everything in it:",
            )
        ],
    )


def _exists(error: ApiError | None) -> bool:
    return error is not None and error.code is ErrorCode.TOPIC_ALREADY_EXISTS
