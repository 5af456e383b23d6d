"""`hightide group …`: list, describe, seek, delete. What changes something shows its plan first."""

import asyncio
import time
from collections.abc import Sequence
from typing import Annotated

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.group_facts import GroupFacts, gather_group, total_lag
from hightide.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT, Bootstrap, Output, Timeout, Yes
from hightide.cli.outcomes import conclude
from hightide.cli.output import Format, Table, show
from hightide.cli.ranges import parse_point, resolve_point
from hightide.cli.session import existing_topic, visit
from hightide.client.cluster import Cluster
from hightide.client.groups import Groups
from hightide.errors import ApiError, ErrorCode
from hightide.types import TopicPartition

application = typer.Typer(no_args_is_help=True, help="Consumer groups: list, describe, seek, delete.")

Names = Annotated[list[str], typer.Argument(metavar="GROUP…", help="Groups by name.")]
EMPTY_STATES = ("Empty", "Dead")


def add_to(parent: typer.Typer) -> None:
    """Make it part of the command line."""
    parent.add_typer(application, name="group")


@application.command("list")
def list_groups(
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT, output: Output = Format.TABLE, timeout: Timeout = TIMEOUT_DEFAULT
) -> None:
    """Show all groups."""
    groups = visit(bootstrap, timeout, lambda cluster: Groups(cluster).all())
    show(
        output,
        document=[
            {
                "group": group.group_id,
                "state": group.group_state,
                "type": group.group_type,
                "protocol_type": group.protocol_type,
            }
            for group in groups
        ],
        names=[group.group_id for group in groups],
        tables=lambda: [
            Table(
                ["GROUP", "STATE", "TYPE", "PROTOCOL TYPE"],
                [[group.group_id, group.group_state, group.group_type, group.protocol_type] for group in groups],
            )
        ],
    )


@application.command("describe")
def describe_groups(
    names: Names,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Show members, committed offsets, and the lag in records and in seconds."""
    groups = visit(bootstrap, timeout, lambda cluster: _gather(cluster, names))
    show(
        output,
        document=[group.document() for group in groups],
        names=[f"{group.name} {total_lag(group.offsets)}" for group in groups],
        tables=lambda: [table for group in groups for table in _description(group)],
    )


@application.command("seek")
def seek_group(
    name: Annotated[str, typer.Argument(metavar="GROUP", help="A group without members.")],
    to: Annotated[
        str, typer.Option("--to", metavar="POINT", help="start, end, an offset, -N, @-1h or @2026-07-28T12:00.")
    ],
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "-t", "--topic", metavar="TOPIC[:PARTITION]", help="Repeatable; without it, all that it committed."
        ),
    ] = None,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Let a group go on from another place. Shows from where to where; --yes does it."""
    try:
        point = parse_point(to, int(time.time() * 1000))
    except ValueError as error:
        raise CommandError(str(error), ExitCode.USAGE) from None

    async def work(cluster: Cluster) -> list[dict[str, object]]:
        groups = Groups(cluster)
        committed = await groups.committed(name)
        partitions = await _chosen(cluster, topics) if topics else sorted(committed)
        if not partitions:
            hint = "-t names the topics to begin with"
            raise CommandError(f"group {name!r} has committed nothing", ExitCode.NOT_FOUND, hint)
        moved = await resolve_point(cluster, partitions, point)
        described = await groups.describe(name) if committed else None
        if described is not None and described.group_state not in EMPTY_STATES:
            raise CommandError(
                f"group {name!r} has {len(described.members)} members, which would go on where they are",
                hint="stop its consumers first",
            )
        if yes:
            await groups.commit(name, moved)
        return [
            {"topic": where.topic, "partition": where.partition, "from": committed.get(where), "to": moved[where]}
            for where in partitions
        ]

    plan = visit(bootstrap, timeout, work)
    show(
        output,
        document={"group": name, "done": yes, "offsets": plan},
        names=[f"{each['topic']}-{each['partition']} {each['to']}" for each in plan],
        tables=lambda: [
            Table(
                ["TOPIC", "PARTITION", "FROM", "TO"],
                [list(each.values()) for each in plan],
                title=f"{name} {'goes' if yes else 'would go'} on from",
            )
        ],
    )
    if not yes:
        raise CommandError("nothing was moved", ExitCode.NOT_CONFIRMED, "the same command with --yes moves it")


@application.command("delete")
def delete_groups(
    names: Names,
    yes: Yes = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Delete groups without members, with all they committed. Shows what would be lost; --yes does it."""
    if not yes:
        groups = visit(bootstrap, timeout, lambda cluster: _gather(cluster, names))
        _show_plan(output, groups)
        raise CommandError("nothing was deleted", ExitCode.NOT_CONFIRMED, "the same command with --yes deletes")
    conclude(output, "group", "deleted", visit(bootstrap, timeout, lambda cluster: Groups(cluster).delete(names)))


async def _gather(cluster: Cluster, names: Sequence[str]) -> list[GroupFacts]:
    async def gather_one(name: str) -> GroupFacts:
        try:
            return await gather_group(cluster, name)
        except ApiError as error:
            if error.code is not ErrorCode.GROUP_ID_NOT_FOUND:
                raise
        hint = "`hightide group list` shows what there is"
        raise CommandError(f"there is no group {name!r}", ExitCode.NOT_FOUND, hint)

    return list(await asyncio.gather(*map(gather_one, names)))


async def _chosen(cluster: Cluster, topics: Sequence[str]) -> list[TopicPartition]:
    """The partitions that `-t TOPIC` and `-t TOPIC:PARTITION` mean."""
    chosen: set[TopicPartition] = set()
    for text in topics:
        name, colon, number = text.partition(":")
        topic = await existing_topic(cluster, name)
        if not colon:
            chosen |= {TopicPartition(name, partition) for partition in topic.partitions}
        elif number.isdigit() and int(number) in topic.partitions:
            chosen.add(TopicPartition(name, int(number)))
        else:
            raise CommandError(f"topic {name!r} has no partition {number!r}", ExitCode.NOT_FOUND)
    return sorted(chosen)


def _description(group: GroupFacts) -> list[Table]:
    title = f"{group.name}  {group.state}, {len(group.members)} members, {total_lag(group.offsets)} records behind"
    tables = [
        Table(
            ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "LAG SECONDS", "MEMBER"],
            [
                [
                    each["topic"],
                    each["partition"],
                    each["committed"],
                    each["end"],
                    each["lag"],
                    None if each["lag_seconds"] is None else f"{each['lag_seconds']:.1f}",
                    each["member"],
                ]
                for each in group.offsets
            ],
            title=title,
        )
    ]
    if group.members:
        tables.append(
            Table(
                ["MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"], [list(each.values()) for each in group.members]
            )
        )
    return tables


def _show_plan(output: Format, groups: Sequence[GroupFacts]) -> None:
    plan = [
        {"group": group.name, "state": group.state, "members": len(group.members), "offsets": len(group.offsets)}
        for group in groups
    ]
    show(
        output,
        document={"delete": plan},
        names=[group.name for group in groups],
        tables=lambda: [
            Table(
                ["GROUP", "STATE", "MEMBERS", "OFFSETS"],
                [list(each.values()) for each in plan],
                title="would delete, with everything committed:",
            )
        ],
    )
