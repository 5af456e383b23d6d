"""`hightide metadata dump`: what the cluster agreed on, record by record, straight from the files of a node.

Reads only, and needs no running node: `__cluster_metadata-0` in a data directory, or one segment or snapshot file.
"""

from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from hightide.cli.failures import CommandError, ExitCode
from hightide.cli.options import DIRECTORY_DEFAULT, Output
from hightide.cli.output import Format, Table, show
from hightide.errors import ProtocolError
from hightide.metadata.records import decode_record
from hightide.types import METADATA_TOPIC, format_uuid
from hightide.wire.message import Message, Structure
from hightide.wire.records import (
    BatchHeader,
    ControlType,
    Record,
    control_type_of,
    crc_ok,
    iterate_headers,
    iterate_records,
)

LOG_DIRECTORY = f"{METADATA_TOPIC}-0"

application = typer.Typer(no_args_is_help=True, help="The metadata log: dump.")


def add_to(parent: typer.Typer) -> None:
    """Make it part of the command line."""
    parent.add_typer(application, name="metadata")


class Entry(NamedTuple):
    """One record of the log."""

    offset: int
    epoch: int
    timestamp: int
    type: str
    data: dict[str, object]


@application.callback()
def metadata() -> None:
    """The metadata log: dump."""


@application.command("dump")
def dump(
    path: Annotated[
        str, typer.Argument(metavar="[PATH]", help="A directory of `up`, a node, its data; or one .log or .checkpoint.")
    ] = DIRECTORY_DEFAULT,
    start: Annotated[int, typer.Option("--from", metavar="OFFSET", min=0, help="Leave out what is before.")] = 0,
    types: Annotated[list[str] | None, typer.Option("--type", help="Only records of this type; repeatable.")] = None,
    output: Output = Format.TABLE,
) -> None:
    """Print the records of the metadata log."""
    entries: list[Entry] = []
    problem: CommandError | None = None
    try:
        for file in find_files(Path(path)):
            entries.extend(read_entries(file))
    except (ProtocolError, OSError) as error:
        problem = CommandError(f"{error}; what comes before it is shown")
    shown = [entry for entry in entries if entry.offset >= start and (not types or entry.type in types)]
    show(
        output,
        document=[entry._asdict() for entry in shown],
        names=[f"{entry.offset} {entry.type}" for entry in shown],
        tables=lambda: [
            Table(["OFFSET", "EPOCH", "TYPE", "DATA"], [[e.offset, e.epoch, e.type, _brief(e.data)] for e in shown])
        ],
    )
    if problem is not None:
        raise problem


def find_files(path: Path) -> list[Path]:
    """The files to read, in order of their offsets; CommandError when there are none."""
    if path.is_file():
        return [path]
    places = [
        path,
        path / LOG_DIRECTORY,
        path / "data" / LOG_DIRECTORY,
        *sorted(path.glob(f"node-*/data/{LOG_DIRECTORY}")),
    ]
    for place in places:
        if place.name == LOG_DIRECTORY and (found := sorted(place.glob("*.log"))):
            return found
    raise CommandError(
        f"there is no metadata log in {path}",
        ExitCode.NOT_FOUND,
        "name the --dir of `hightide up`, or a node's log.dirs",
    )


def read_entries(file: Path) -> Iterator[Entry]:
    """The records of one file; ProtocolError at the first batch that is not whole."""
    data = file.read_bytes()
    end = 0
    for position, header in iterate_headers(data):
        if not crc_ok(data, position, header):
            raise ProtocolError(f"{file}: the batch at offset {header.base_offset} fails its CRC")
        for record in iterate_records(data, position, header):
            message = _control_message(record) if header.is_control else decode_record(record.value or b"")
            yield _entry(record, header, message)
        end = position + header.size
    if any(data[end:]):
        raise ProtocolError(f"{file}: {len(data) - end} bytes at position {end} are no whole batch")


def _entry(record: Record, header: BatchHeader, message: Structure | None) -> Entry:
    kind = "ControlRecord" if message is None else type(message).__name__
    fields = {} if message is None else _plain_fields(message)
    return Entry(record.offset, header.partition_leader_epoch, record.timestamp, kind, fields)


def _control_message(record: Record) -> Message | None:
    """The message of a control record, in the version that its first field names; None for a type from the future."""
    from hightide.wire.messages import control_records

    classes: dict[ControlType, type[Message]] = {
        ControlType.LEADER_CHANGE: control_records.LeaderChangeMessage,
        ControlType.SNAPSHOT_HEADER: control_records.SnapshotHeaderRecord,
        ControlType.SNAPSHOT_FOOTER: control_records.SnapshotFooterRecord,
        ControlType.KRAFT_VERSION: control_records.KRaftVersionRecord,
        ControlType.KRAFT_VOTERS: control_records.VotersRecord,
    }
    kind = control_type_of(record.key)
    if kind is None or kind not in classes or record.value is None:
        return None
    return classes[kind].decode(record.value, int.from_bytes(record.value[:2], "big"))


def _plain_fields(structure: Structure) -> dict[str, object]:
    return {name: _plain(getattr(structure, name)) for name in structure.__slots__}


def _plain(value: object) -> object:
    if isinstance(value, Structure):
        return _plain_fields(value)
    if isinstance(value, list):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return format_uuid(value) if len(value) == 16 else b64encode(value).decode()
    return value


def _brief(data: dict[str, object]) -> str:
    return " ".join(f"{name}={value}" for name, value in data.items() if value not in (None, [], ""))
