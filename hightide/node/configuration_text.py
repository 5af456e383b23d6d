"""Configuration files as text: Java's `.properties`, and TOML with quoted keys."""

from collections.abc import Iterator, Mapping

from hightide.metadata.settings.definition import SettingError

_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse_properties(text: str) -> dict[str, str]:
    """What `java.util.Properties` reads: comments, continued lines, `=`, `:` or blanks between, backslash escapes."""
    values = {}
    for line in _logical_lines(text):
        split = _end_of_key(line)
        rest = line[split:].lstrip(" \t\f")
        if rest[:1] in ("=", ":"):
            rest = rest[1:].lstrip(" \t\f")
        values[_unescape(line[:split])] = _unescape(rest)
    return values


def parse_toml(text: str) -> dict[str, str]:
    """A TOML document; `"num.partitions" = 3`, `num.partitions = 3` and a table `[num]` mean the same."""
    import tomllib

    try:
        return dict(_flatten("", tomllib.loads(text)))
    except tomllib.TOMLDecodeError as error:
        raise SettingError(f"not TOML: {error}") from None


def _flatten(prefix: str, table: Mapping[str, object]) -> Iterator[tuple[str, str]]:
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flatten(f"{prefix}{key}.", value)
        elif isinstance(value, list):
            yield prefix + key, ",".join(map(_scalar, value))
        else:
            yield prefix + key, _scalar(value)


def _scalar(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _logical_lines(text: str) -> Iterator[str]:
    pending = ""
    for raw in text.splitlines():
        line = raw.lstrip(" \t\f")
        if not pending and (not line or line[0] in "#!"):
            continue
        pending += line
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        yield pending
        pending = ""
    if pending:
        yield pending


def _end_of_key(line: str) -> int:
    position = 0
    while position < len(line) and line[position] not in "=: \t\f":
        position += 2 if line[position] == "\\" else 1
    return min(position, len(line))


def _unescape(text: str) -> str:
    if "\\" not in text:
        return text
    characters = []
    position = 0
    while position < len(text):
        character = text[position]
        position += 1
        if character == "\\" and position < len(text):
            character = text[position]
            position += 1
            if character == "u":
                character, position = _unicode(text, position)
            else:
                character = _ESCAPES.get(character, character)
        characters.append(character)
    return "".join(characters)


def _unicode(text: str, position: int) -> tuple[str, int]:
    digits = text[position : position + 4]
    try:
        return chr(int(digits, 16)), position + 4
    except ValueError:
        raise SettingError(f"malformed \\u{digits} escape") from None
