"""The `hightide` command as a page: every command and option, read from the command tree itself."""

from collections.abc import Iterator
from enum import Enum
from typing import Any

import typer

from hightide.cli.application import EXIT_CODES, build
from hightide.cli.server import USAGE as SERVER_USAGE
from tools.markdown import code, page, table

PREFACE = """\
[The command line](../command-line.md) tells how the commands are meant; this page lists every option.
`python -m hightide` is the same command."""


def command_page() -> str:
    """docs/reference/cli.md"""
    blocks = [block for path, command in _commands("hightide", _tree()) for block in _section(path, command)]
    return page("The `hightide` command", "the commands in `hightide/cli/`", PREFACE, EXIT_CODES, *blocks)


def _tree() -> Any:
    # Whether typer stands on click or brings its own copy of it depends on its version: only attributes are used.
    return typer.main.get_command(build())


def _commands(path: str, command: Any) -> Iterator[tuple[str, Any]]:
    children = getattr(command, "commands", None)
    if not children:
        yield path, command
        return
    for name in sorted(children):
        yield from _commands(f"{path} {name}", children[name])


def _section(path: str, command: Any) -> Iterator[str]:
    yield f"## {code(path)}"
    if path == "hightide server":
        yield f"```text\n{SERVER_USAGE}```"
        return
    yield command.help
    arguments = [entry for entry in command.params if entry.param_type_name == "argument"]
    options = [entry for entry in command.params if entry.param_type_name == "option"]
    usage = [path, *(_metavar(entry) for entry in arguments), "[OPTIONS]" if options else ""]
    yield f"```text\n{' '.join(usage).rstrip()}\n```"
    yield table(["", "value", "default", "what it does"], [_row(entry) for entry in [*arguments, *options]])


def _row(entry: Any) -> tuple[str, str, str, str]:
    name = _metavar(entry) if entry.param_type_name == "argument" else ", ".join(entry.opts)
    value = "" if entry.param_type_name == "argument" else _value(entry)
    default = _default(entry)
    if entry.envvar:
        default = f"{default}, or {code(entry.envvar)}"
    return code(name), value, default, entry.help or ""


def _metavar(entry: Any) -> str:
    return str(entry.metavar or entry.name.upper())


def _value(entry: Any) -> str:
    choices = getattr(entry.type, "choices", None)
    if choices:
        return ", ".join(code(getattr(choice, "value", choice)) for choice in choices)
    low, high = getattr(entry.type, "min", None), getattr(entry.type, "max", None)
    if low is not None or high is not None:
        return f"{low}-{high}" if high is not None else f"at least {low}"
    if entry.metavar or getattr(entry, "is_flag", False):
        return code(entry.metavar) if entry.metavar else ""
    # typer's versions call the types differently.
    return "number" if entry.type.name.startswith("int") else "text"


def _default(entry: Any) -> str:
    value = entry.default.value if isinstance(entry.default, Enum) else entry.default
    return code(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else ""
