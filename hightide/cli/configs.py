"""`hightide config show`: the settings that count, and where each was said."""

from typing import Annotated

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import BOOTSTRAP_DEFAULT, TIMEOUT_DEFAULT, Bootstrap, Output, Settings, Timeout
from hightide.cli.output import Format, Table, show
from hightide.cli.server import load_settings, split_setting

application = typer.Typer(no_args_is_help=True, help="Settings: show.")


def add_to(parent: typer.Typer) -> None:
    """Make it part of the command line."""
    parent.add_typer(application, name="config")


@application.callback()
def settings() -> None:
    """Settings: show."""


@application.command("show")
def show_settings(
    names: Annotated[list[str] | None, typer.Argument(metavar="[KEY…]", help="Only these settings.")] = None,
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="As `hightide server` reads it.")
    ] = None,
    flags: Settings = None,
    topic: Annotated[str | None, typer.Option("--topic", help="Those of a topic in a running cluster.")] = None,
    broker: Annotated[int | None, typer.Option("--broker", help="Those of a running broker, by its id.")] = None,
    origin: Annotated[bool, typer.Option("--origin", help="Also where each value was said.")] = False,
    changed: Annotated[bool, typer.Option("--changed", help="Only what differs from the defaults.")] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    output: Output = Format.TABLE,
    timeout: Timeout = TIMEOUT_DEFAULT,
) -> None:
    """Show settings: those a server would start with here, or with --topic or --broker those that a cluster keeps."""
    if topic is not None and broker is not None:
        raise CommandError("--topic and --broker exclude each other", ExitCode.USAGE)
    if topic is None and broker is None:
        found = _of_a_start(config, dict(map(split_setting, flags or ())))
    else:
        found = _of_a_cluster(bootstrap, timeout, topic, broker)
    if changed:
        found = [entry for entry in found if entry[2] not in ("default", "default config")]
    if names:
        _require_known(names, [name for name, _, _ in found])
        found = [entry for entry in found if entry[0] in names]
    show(
        output,
        document=[{"name": name, "value": value, "origin": where} for name, value, where in found]
        if origin
        else {name: value for name, value, _ in found},
        names=[name for name, _, _ in found],
        tables=lambda: [
            Table(["SETTING", "VALUE", "ORIGIN"], found)
            if origin
            else Table(["SETTING", "VALUE"], [e[:2] for e in found])
        ],
    )


Entry = tuple[str, str | None, str]


def _of_a_start(config: str | None, flags: dict[str, str]) -> list[Entry]:
    from hightide.metadata.settings.broker import BROKER_SETTINGS

    settings = load_settings(config, flags)
    found = ((name, next(settings.given(name), None)) for name in sorted(BROKER_SETTINGS))
    return [(name, given.text if given else None, settings.place(name)) for name, given in found]


def _of_a_cluster(bootstrap: str, timeout: float, topic: str | None, broker: int | None) -> list[Entry]:
    from hightide.cli.session import existing_topic, visit
    from hightide.client.cluster import Cluster
    from hightide.client.configs import ConfigEntry, Resource, ResourceType, describe_configs

    async def work(cluster: Cluster) -> list[ConfigEntry]:
        if topic is not None:
            await existing_topic(cluster, topic)
            return await describe_configs(cluster, Resource(ResourceType.TOPIC, topic))
        if broker not in (await cluster.metadata()).brokers:
            raise CommandError(
                f"there is no broker {broker}", ExitCode.NOT_FOUND, "`hightide cluster describe` lists them"
            )
        return await describe_configs(cluster, Resource(ResourceType.BROKER, str(broker)))

    entries = visit(bootstrap, timeout, work)
    return [
        (entry.name, "(hidden)" if entry.sensitive else entry.value, entry.source.name.replace("_", " ").lower())
        for entry in entries
    ]


def _require_known(names: list[str], known: list[str]) -> None:
    from difflib import get_close_matches

    for name in names:
        if name not in known:
            near = get_close_matches(name, known, n=1)
            hint = f"did you mean {near[0]!r}?" if near else None
            raise CommandError(f"there is no setting {name!r}", ExitCode.NOT_FOUND, hint)
