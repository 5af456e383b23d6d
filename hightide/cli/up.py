"""`hightide up`: a local cluster in child processes, until Ctrl-C."""

import json
import shlex
import signal
from typing import Annotated

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import DIRECTORY_DEFAULT, Output, Settings
from hightide.cli.output import Format, say
from hightide.cli.server import split_setting
from hightide.cli.yaml import to_yaml
from hightide.runtime.launcher import LaunchError, LocalCluster


def add_to(application: typer.Typer) -> None:
    """Make it part of the command line."""
    application.command("up")(up)


def up(
    directory: Annotated[
        str, typer.Option("--dir", metavar="D", help="Where data and settings live.")
    ] = DIRECTORY_DEFAULT,
    port: Annotated[
        int | None, typer.Option("--port", min=0, max=65535, help="The first node's port; 9092 for a new directory.")
    ] = None,
    brokers: Annotated[
        int | None, typer.Option("--brokers", min=1, help="How many nodes a new directory gets; 1 when not said.")
    ] = None,
    controllers: Annotated[
        int | None,
        typer.Option("--controllers", min=1, help="How many of them are controllers: 1, 3 or 5; 3 from 3 nodes on."),
    ] = None,
    settings: Settings = None,
    output: Output = Format.TABLE,
) -> None:
    """Run a local cluster until Ctrl-C. A directory that was used before is resumed."""
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.default_int_handler)  # as Ctrl-C: a KeyboardInterrupt
    cluster = _start(directory, brokers, controllers, port, dict(map(split_setting, settings or ())))
    try:
        _announce(cluster, output)
        _watch(cluster)
    except KeyboardInterrupt:
        say("stopping")
    finally:
        try:
            cluster.stop()
        except KeyboardInterrupt:  # asked twice: at once, then
            cluster.stop(timeout=0)


def _start(
    directory: str, brokers: int | None, controllers: int | None, port: int | None, settings: dict[str, str]
) -> LocalCluster:
    try:
        cluster = LocalCluster(directory, brokers=brokers, controllers=controllers, port=port, settings=settings)
        for node in cluster.nodes:
            say(f"{'resuming' if node.resumed else 'creating'} node {node.id} in {node.directory}")
        cluster.start()
    except LaunchError as error:
        raise CommandError(str(error), hint="--port and --dir choose another port and directory") from None
    except OSError as error:
        raise CommandError(f"{error.filename or directory}: {error.strerror}") from None
    except KeyboardInterrupt:
        raise CommandError("interrupted", ExitCode.INTERRUPTED) from None
    return cluster


def _watch(cluster: LocalCluster) -> None:
    """Say when a node dies; nobody restarts it but its owner. Ends, with a failure, when all are dead."""
    while (node := cluster.await_death()) is not None:
        status = None if node.process is None else node.process.returncode
        restart = f"hightide server --config {shlex.quote(str(node.settings_file))}"
        say(f"node {node.id} ended with status {status}; its log is {node.log_file}\n  {restart} starts it again")
    raise CommandError("no node is left")


def _announce(cluster: LocalCluster, output: Format) -> None:
    document = {
        "bootstrap": cluster.bootstrap,
        "nodes": [
            {
                "id": node.id,
                "roles": list(node.roles),
                "address": node.address,
                "pid": node.pid,
                "data_dir": str(node.data_directory),
            }
            for node in cluster.nodes
        ],
    }
    if output is Format.JSON:
        print(json.dumps(document, separators=(",", ":")), flush=True)
    elif output is Format.YAML:
        print(to_yaml(document), end="", flush=True)
    elif output is Format.NAME:
        print(cluster.bootstrap, flush=True)
    else:
        print(_welcome(cluster), flush=True)


def _welcome(cluster: LocalCluster) -> str:
    ready = [
        f"node {node.id} is ready on {node.address} (process {node.pid}, log {node.log_file})" for node in cluster.nodes
    ]
    bootstrap = cluster.bootstrap
    option = "" if bootstrap == "127.0.0.1:9092" else f" -b {bootstrap}"
    return "\n".join(
        [
            *ready,
            f"bootstrap: {bootstrap}",
            "",
            f"  echo hello | kcat -b {bootstrap} -P -t greetings",
            f"  kcat -b {bootstrap} -C -t greetings -e",
            f"  hightide consume greetings{option}",
            "",
            "Ctrl-C stops it; the data stays.",
        ]
    )
