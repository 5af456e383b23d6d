"""How `consume` prints a record: kcat's `-f` formats, or documents.

`%t` topic, `%p` partition, `%o` offset, `%T` timestamp in milliseconds, `%k` key, `%v` (or `%s`) value, `%h` headers,
`%K` and `%V` (or `%S`) their lengths, -1 for null; `%%` a per cent sign; `\\n \\t \\r \\\\ \\xNN` as usual.
"""

import json
import re
from base64 import b64encode
from collections.abc import Callable
from datetime import UTC, datetime

from hightide.cli.output import Format
from hightide.cli.yaml import to_yaml
from hightide.client.consumer import ConsumedRecord

Printer = Callable[[ConsumedRecord], bytes]

VALUE_LINES = "%v\\n"
_TOKEN = re.compile(r"%(.)|\\(x[0-9A-Fa-f]{2}|.)|([^%\\]+)|(.)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "\\": b"\\", "0": b"\0"}
_TABLE_COLUMNS = "PARTITION  OFFSET      TIMESTAMP                 KEY                   VALUE"


def compile_format(text: str) -> Printer:
    """A printer for a format; ValueError for one that means nothing."""
    parts: list[bytes | Printer] = []
    for field, escape, literal, stray in _TOKEN.findall(text):
        if field:
            if field not in _FIELDS:
                raise ValueError(f"a format has no %{field}; it has %t %p %o %T %k %v %h %K %V and %%")
            parts.append(_FIELDS[field])
        elif escape:
            parts.append(bytes([int(escape[1:], 16)]) if len(escape) == 3 else _ESCAPES.get(escape, escape.encode()))
        elif stray:
            raise ValueError(f"a format ends in {stray!r}; write {stray * 2!r} for the character itself")
        else:
            parts.append(literal.encode())
    return lambda record: b"".join(part if isinstance(part, bytes) else part(record) for part in parts)


def printer_of(output: Format | None, text: str | None) -> Printer:
    """The printer that the two options ask for; values on lines when they ask for nothing."""
    if text is not None or output is None:
        return compile_format(VALUE_LINES if text is None else text)
    return {Format.JSON: _json_line, Format.YAML: _yaml_document, Format.NAME: _name, Format.TABLE: _row}[output]


def heading_of(output: Format | None) -> bytes:
    """What stands above the records."""
    return f"{_TABLE_COLUMNS}\n".encode() if output is Format.TABLE else b""


def document(record: ConsumedRecord) -> dict[str, object]:
    """A record as JSON has it: text where it is UTF-8, else base64 under another name."""
    return {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp": record.timestamp,
        **_text_or_base64("key", record.key),
        **_text_or_base64("value", record.value),
        "headers": [{"name": name, **_text_or_base64("value", value)} for name, value in record.headers],
    }


def _text_or_base64(name: str, content: bytes | None) -> dict[str, object]:
    if content is None:
        return {name: None}
    try:
        return {name: content.decode()}
    except UnicodeDecodeError:
        return {f"{name}_base64": b64encode(content).decode()}


def _json_line(record: ConsumedRecord) -> bytes:
    return json.dumps(document(record), ensure_ascii=False).encode("utf-8", "surrogateescape") + b"\n"


def _yaml_document(record: ConsumedRecord) -> bytes:
    return b"---\n" + to_yaml(document(record)).encode("utf-8", "surrogateescape")


def _name(record: ConsumedRecord) -> bytes:
    return f"{record.topic}-{record.partition}@{record.offset}\n".encode()


def _row(record: ConsumedRecord) -> bytes:
    when = datetime.fromtimestamp(record.timestamp / 1000, UTC).isoformat(timespec="milliseconds")
    key = "-" if record.key is None else record.key.decode("utf-8", "replace")
    value = "-" if record.value is None else record.value.decode("utf-8", "replace")
    when = when.removesuffix("+00:00") + "Z"
    return f"{record.partition:<9}  {record.offset:<10}  {when:<24}  {key:<20}  {value}\n".encode()


def _headers(record: ConsumedRecord) -> bytes:
    return b",".join(
        name.encode("utf-8", "surrogateescape") + b"=" + (b"NULL" if value is None else value)
        for name, value in record.headers
    )


def _length(content: bytes | None) -> bytes:
    return str(-1 if content is None else len(content)).encode()


_FIELDS: dict[str, bytes | Printer] = {
    "%": b"%",
    "t": lambda record: record.topic.encode(),
    "p": lambda record: str(record.partition).encode(),
    "o": lambda record: str(record.offset).encode(),
    "T": lambda record: str(record.timestamp).encode(),
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "h": _headers,
    "K": lambda record: _length(record.key),
    "V": lambda record: _length(record.value),
    "S": lambda record: _length(record.value),
}
