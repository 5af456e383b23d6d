"""Options that several commands share, so that they are spelled and explained alike everywhere."""

from typing import Annotated

import typer

from hightide.cli.output import Format

BOOTSTRAP_DEFAULT = "127.0.0.1:9092"
DIRECTORY_DEFAULT = "hightide-cluster"  # of `up`; not `hightide-data`, where a lone `server` keeps its logs
TIMEOUT_DEFAULT = 15.0

Bootstrap = Annotated[
    str,
    typer.Option("-b", "--bootstrap", envvar="HIGHTIDE_BOOTSTRAP", metavar="HOST:PORT,…", help="Where the cluster is."),
]
Output = Annotated[Format, typer.Option("-o", "--output", help="How to print the answer.")]
Timeout = Annotated[float, typer.Option("--timeout", min=0.1, help="Seconds after which to give up.")]
Yes = Annotated[bool, typer.Option("-y", "--yes", help="Do it; without this, only the plan is shown.")]
Settings = Annotated[list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="A setting; repeatable.")]
