"""Where the `hightide` command begins.

`server` has a way of its own: a broker answers within 0.3 s of its start, so neither typer nor rich is loaded for it.
"""

import sys
from collections.abc import Sequence


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command line; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    if given[:1] == ["server"]:
        from hightide.cli import server

        return server.main(given[1:])
    if given[:1] == ["--version"]:
        from hightide import __version__

        print(f"hightide {__version__}")
        return 0
    from hightide.cli import application

    return application.main(given)
