"""The command line of `hightide`, but for `server`: nouns first, the same options everywhere, never a traceback.

Only the module of the command that was asked for is loaded; all of them for the help, or to name the nearest one.
"""

from collections.abc import Sequence
from importlib import import_module
from typing import Annotated

import typer

from hightide.cli.failures import CommandError, ExitCode, report
from hightide.cli.server import USAGE as SERVER_USAGE

EXIT_CODES = (
    "Exit codes: 0 done, 1 failed, 2 wrong options or settings, 3 not found, 4 no broker reached, "
    "5 a plan was shown and not carried out, 130 interrupted."
)

# Each module of a command has `add_to(application)`.
MODULES = {
    "up": "up",
    "topic": "topics",
    "produce": "produce",
    "consume": "consume",
    "group": "groups",
    "cluster": "clusters",
    "config": "configs",
    "metadata": "metadata_log",
    "sim": "sim",
    "pipeline": "pipeline",
}


def main(arguments: Sequence[str]) -> int:
    """Run one command; returns the exit code."""
    debug = "--debug" in arguments[:1]
    wanted = next((argument for argument in arguments if not argument.startswith("-")), "")
    try:
        build(wanted)(list(arguments), prog_name="hightide")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else ExitCode.DONE
    except CommandError as failure:
        return report(failure)
    except Exception as error:
        if debug:
            raise
        what = f"{type(error).__name__}: {error}"
        return report(CommandError(f"unexpected {what}", hint="`hightide --debug …` shows where; please report it"))
    return ExitCode.DONE


def build(wanted: str = "") -> typer.Typer:
    """The commands: one if it is known, else all."""
    application = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        help="A replicated, partitioned message log that speaks Kafka's wire protocol.",
        epilog=EXIT_CODES,
    )
    application.callback()(_every_command)
    for name, module in MODULES.items():
        if name == wanted or wanted not in MODULES:
            import_module(f"hightide.cli.{module}").add_to(application)
    application.command("server", help="Run one node in the foreground.")(_server)
    return application


def _every_command(
    version: Annotated[bool, typer.Option("--version", help="Show the version and leave.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show tracebacks.")] = False,
) -> None:
    """Options before the command; `entry` and `main` have seen them already."""


def _server() -> None:
    """Listed for the help; `entry` takes this command before typer is loaded."""
    print(SERVER_USAGE, end="")
