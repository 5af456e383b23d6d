"""The command line of `hightide`, but for `server`: nouns first, the same options everywhere, never a traceback."""

import os
import sys
from collections.abc import Sequence
from typing import Annotated

import typer

from hightide.cli import clusters, configs, metadata_log, topics
from hightide.cli.consume import consume
from hightide.cli.failures import CommandError, ExitCode, report
from hightide.cli.produce import produce
from hightide.cli.server import USAGE as SERVER_USAGE
from hightide.cli.up import up

EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong options or settings, 3 not found, 4 no broker reached, "
    "5 a plan was shown and not carried out, 130 interrupted."
)

application = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="A replicated, partitioned message log that speaks Kafka's wire protocol.",
    epilog=EXIT_CODES,
)
application.command("up")(up)
application.add_typer(topics.application, name="topic")
application.command("produce")(produce)
application.command("consume")(consume)
application.add_typer(clusters.application, name="cluster")
application.add_typer(configs.application, name="config")
application.add_typer(metadata_log.application, name="metadata")


@application.command("server", help="Run one node in the foreground.", add_help_option=False)
def server() -> None:
    """Listed for the help; `entry` takes the command before typer is loaded."""
    print(SERVER_USAGE, end="")


@application.callback()
def every_command(
    version: Annotated[bool, typer.Option("--version", is_eager=True, help="Show the version and leave.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Options before the command; `main` and `entry` have seen them already."""


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    debug = "--debug" in arguments[:1]
    try:
        application(list(arguments), prog_name="hightide")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.DONE
    except CommandError as failure:
        return report(failure)
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return ExitCode.DONE
    except Exception as error:
        if debug:
            raise
        what = f"{type(error).__name__}: {error}"
        return report(CommandError(f"unexpected {what}", hint="`hightide --debug …` shows where; please report it"))
    return ExitCode.DONE
