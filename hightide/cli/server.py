"""`hightide server`: one node in this process, in the foreground. Parsed by hand, because typer costs a start 0.1 s."""

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from hightide.cli.failures import CommandError, ExitCode, report

if TYPE_CHECKING:
    from hightide.node.config import Settings

USAGE = """\
Usage: hightide server [--config FILE] [--set KEY=VALUE]...

Run one node in the foreground until SIGTERM or Ctrl-C, which stop it cleanly.

  --config FILE     settings in Kafka's .properties form, or TOML when the name ends in .toml
  --set KEY=VALUE   one setting; may be repeated
  --help            this text

A setting is a flag, else an environment variable (HIGHTIDE_ and the name in upper case, dots as underscores), else in
the file, else its default. `hightide config show --origin` takes the same options and shows what would count, and why.

Exit codes: 0 stopped cleanly, 1 failed, 2 the options or settings are wrong, 3 the file does not exist.
"""


def main(arguments: Sequence[str]) -> int:
    """Run a node until it is told to stop."""
    try:
        given = parse(arguments)
        if given is None:
            print(USAGE, end="")
            return ExitCode.DONE
        settings = load_settings(*given)
    except CommandError as failure:
        return report(failure)
    from hightide.runtime.server import run_server

    return run_server(settings)


def parse(arguments: Sequence[str]) -> tuple[str | None, dict[str, str]] | None:
    """The file and the settings of a command line; None when help is wanted."""
    config: str | None = None
    flags: dict[str, str] = {}
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if option in ("--help", "-h"):
            return None
        if option == "--config":
            config = value if equals else _following(option, rest)
        elif option == "--set":
            flags.update([split_setting(value if equals else _following(option, rest))])
        else:
            raise CommandError(
                f"server has no option {argument!r}", ExitCode.USAGE, "`hightide server --help` shows them"
            )
    return config, flags


def split_setting(text: str) -> tuple[str, str]:
    """KEY=VALUE, as `--set` takes it."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise CommandError(f"{text!r} is not KEY=VALUE", ExitCode.USAGE)
    return name.strip(), value


def load_settings(config: str | None, flags: dict[str, str]) -> "Settings":
    """The settings a server with these options would run with."""
    from hightide.node.config import ConfigError, Settings

    try:
        return Settings.load(_read(config), os.environ, flags, file_name=config or "server.properties")
    except ConfigError as error:
        raise CommandError("\n".join(["the settings are wrong:", *error.problems]), ExitCode.USAGE) from None


def _read(config: str | None) -> str | None:
    if config is None:
        return None
    try:
        with open(config, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        raise CommandError(f"there is no file {config}", ExitCode.NOT_FOUND) from None
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"{config} cannot be read: {error}") from None


def _following(option: str, rest: Iterator[str]) -> str:
    value = next(rest, None)
    if value is None:
        raise CommandError(f"{option} wants a value", ExitCode.USAGE)
    return value
