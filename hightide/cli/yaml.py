"""Just enough YAML to print: mappings, lists, scalars. What could be misread is quoted as JSON, which YAML reads."""

import json
import re
from collections.abc import Iterator

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_./@-]*")
_WORDS = frozenset({"true", "false", "null", "yes", "no", "on", "off", "y", "n", "nan", "inf"})


def to_yaml(value: object) -> str:
    """A document, without the leading dashes, ending in a newline."""
    return "".join(f"{line}\n" for line in _lines(value))


def _lines(value: object) -> Iterator[str]:
    if isinstance(value, dict) and value:
        for key, part in value.items():
            yield from _nested(f"{_scalar(str(key))}:", part, indent="  ")
    elif isinstance(value, list | tuple) and value:
        for part in value:
            yield from _nested("-", part, indent="  ")
    else:
        yield _scalar(value)


def _nested(head: str, value: object, indent: str) -> Iterator[str]:
    """A part below its key or dash: a scalar beside it, what is in a list right after the dash, the rest below."""
    lines = list(_lines(value))
    if not isinstance(value, dict | list | tuple) or not value:
        yield f"{head} {lines[0]}"
        return
    if head == "-":
        yield f"- {lines.pop(0)}"
    else:
        yield head
    for line in lines:
        yield indent + line


def _scalar(value: object) -> str:
    if isinstance(value, str) and _PLAIN.fullmatch(value) and value.lower() not in _WORDS:
        return value
    return json.dumps(value, ensure_ascii=False)
