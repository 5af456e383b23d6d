"""Printing results: every command has the same answer as a table, as JSON, as YAML, or as names only.

A table is drawn with rich on a terminal, and plainly aligned elsewhere: a pipe has no width to fit into.
"""

import json
import sys
from collections.abc import Callable, Iterable, Sequence
from enum import StrEnum
from typing import NamedTuple

from hightide.cli.yaml import to_yaml


class Format(StrEnum):
    """The values of `-o/--output`."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    NAME = "name"


class Table(NamedTuple):
    """Rows under headings, perhaps with a title."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    title: str = ""


def show(output: Format, *, document: object, names: Iterable[str], tables: Callable[[], Iterable[Table]]) -> None:
    """Print one answer in the form that was asked for."""
    if output is Format.JSON:
        print(json.dumps(document, indent=2, ensure_ascii=False))
    elif output is Format.YAML:
        print(to_yaml(document), end="")
    elif output is Format.NAME:
        for name in names:
            print(name)
    else:
        _show_tables(list(tables()))


def _show_tables(tables: Sequence[Table]) -> None:
    draw = _draw if sys.stdout.isatty() else _align
    for index, table in enumerate(tables):
        if index:
            print()
        draw(table)


def _align(table: Table) -> None:
    if table.title:
        print(table.title)
    rows = [list(table.columns), *([_cell(value) for value in row] for row in table.rows)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(table.columns))]
    for row in rows:
        print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


def _draw(table: Table) -> None:
    from rich import box, console, markup
    from rich import table as rich_table

    drawn = rich_table.Table(title=table.title or None, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for column in table.columns:
        drawn.add_column(column, overflow="fold")
    for row in table.rows:
        drawn.add_row(*(markup.escape(_cell(value)) for value in row))
    console.Console().print(drawn)


def _cell(value: object) -> str:
    if value is None:
        return "-"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        return ",".join(map(str, value)) or "-"
    return str(value)


def say(text: str) -> None:
    """A remark beside the answer: on standard error, so that a script reads the answer alone."""
    print(text, file=sys.stderr, flush=True)
