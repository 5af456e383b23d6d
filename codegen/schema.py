"""The facts as objects: Kafka's schemas and our additions, with their irregularities made regular.

The facts mix -1 and "-1", and have a null beside "null" that differs from it; they leave `versions` out where
`taggedVersions` says it; and they keep messages without any valid version as tombstones. Nothing after this module
needs to know.
"""

import json
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
KAFKA = FOLDER / "kafka-4.3-schemas.json"
ADDITIONS = FOLDER / "hightide.json"

OWN_FROM = 10_000
NEVER = 0x7FFF

PYTHON_TYPES = {
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "int64": "int",
    "float64": "float",
    "bool": "bool",
    "string": "str",
    "bytes": "bytes",
    "uuid": "bytes",
    "records": "Octets",
}

Default = int | float | str | bytes | None


@dataclass(frozen=True)
class Versions:
    """A closed range of versions; empty when highest < lowest."""

    lowest: int
    highest: int

    def __contains__(self, version: int) -> bool:
        return self.lowest <= version <= self.highest

    def all(self) -> range:
        """Every version of a range that has an end."""
        return range(self.lowest, self.highest + 1)


NO_VERSIONS = Versions(0, -1)


@dataclass(eq=False)
class Field:
    """One field. `structure` is set when its type, or its elements' type, is a structure."""

    name: str
    kafka_type: str
    is_array: bool
    structure: "Structure | None"
    versions: Versions
    nullable: Versions
    tagged: Versions
    tag: int
    default: Default
    ignorable: bool

    @property
    def is_optional(self) -> bool:
        """Whether any version lets it be null."""
        return self.nullable != NO_VERSIONS

    @property
    def is_tagged(self) -> bool:
        """Whether it travels in the tagged section of every version that has it."""
        return self.tagged != NO_VERSIONS

    @property
    def is_fixed(self) -> bool:
        """Whether it is one value of fixed width."""
        return not self.is_array and self.kafka_type in FIXED

    @property
    def annotation(self) -> str:
        """Its type in Python."""
        element = self.structure.class_name if self.structure else PYTHON_TYPES[self.kafka_type]
        whole = f"list[{element}]" if self.is_array else element
        return f"{whole} | None" if self.is_optional else whole


FIXED = {
    "int8": "b",
    "int16": "h",
    "uint16": "H",
    "int32": "i",
    "int64": "q",
    "float64": "d",
    "bool": "?",
    "uuid": "16s",
}


@dataclass(eq=False)
class Structure:
    """A message's part, and the versions in which some field uses it."""

    name: str
    fields: list[Field] = field(default_factory=list)
    versions: set[int] = field(default_factory=set)
    class_name: str = ""


@dataclass(eq=False)
class Message(Structure):
    """A request, a response or a record, with its structures in the order in which Python must see them."""

    kind: str = ""
    valid: Versions = NO_VERSIONS
    flexible: Versions = NO_VERSIONS
    is_latest_unstable: bool = False
    listeners: tuple[str, ...] = ()
    number: int | None = None
    structures: list[Structure] = field(default_factory=list)

    @property
    def flexible_from(self) -> int:
        """The first flexible version, or a number above every version."""
        return NEVER if self.flexible == NO_VERSIONS else self.flexible.lowest


def load() -> dict[str, list[Message]]:
    """Every living message, by the group of the facts that it stands in."""
    facts: dict[str, list[dict[str, Any]]] = json.loads(KAFKA.read_text())["messages"]
    additions = json.loads(ADDITIONS.read_text())
    for group, messages in additions["messages"].items():
        facts[group].extend(_check_own(message) for message in messages)
    by_name = {message["name"]: message for messages in facts.values() for message in messages}
    for addition in additions["fields"]:
        if addition["field"]["tag"] < OWN_FROM:
            raise ValueError(f"{addition['message']}: our tags begin at {OWN_FROM}")
        _fields_inside(by_name[addition["message"]], addition.get("inside", "")).append(addition["field"])
    return {
        group: [_message(facts) for facts in messages if facts["validVersions"] != "none" and facts["type"] != "header"]
        for group, messages in facts.items()
    }


def _fields_inside(message: dict[str, Any], path: str) -> list[dict[str, Any]]:
    """The fields of a message, or of the structure behind a dotted path of its field names."""
    fields: list[dict[str, Any]] = message["fields"]
    for name in filter(None, path.split(".")):
        fields = next(field["fields"] for field in fields if field["name"] == name)
    return fields


def _check_own(message: dict[str, Any]) -> dict[str, Any]:
    if message.get("apiKey", message.get("recordType", 0)) < OWN_FROM:
        raise ValueError(f"{message['name']}: our APIs and record types begin at {OWN_FROM}")
    return message


def _message(facts: dict[str, Any]) -> Message:
    message = Message(
        facts["name"],
        kind=facts["type"],
        valid=parse_versions(facts["validVersions"]),
        flexible=parse_versions(facts.get("flexibleVersions", "none")),
        is_latest_unstable=facts.get("latestVersionUnstable", False),
        listeners=tuple(facts.get("listeners", ())),
        number=facts.get("apiKey", facts.get("recordType")),
    )
    shared = {common["name"]: common for common in facts.get("commonStructs", ())}
    structures: dict[str, Structure] = {}

    def build(structure: Structure, rows: list[dict[str, Any]], versions: set[int]) -> None:
        new = versions - structure.versions
        structure.versions |= versions
        first_time = not structure.fields
        for row in rows:
            kafka_type = row["type"].removeprefix("[]")
            row_versions = parse_versions(row.get("versions", row.get("taggedVersions", "none")))
            nested = None
            if kafka_type not in PYTHON_TYPES:
                nested = structures.setdefault(kafka_type, Structure(kafka_type))
                inner = row.get("fields") or shared[kafka_type]["fields"]
                build(nested, inner, {version for version in new if version in row_versions})
            if first_time:
                structure.fields.append(_field(row, kafka_type, nested, row_versions))
        if structure is not message and structure not in message.structures:
            message.structures.append(structure)

    build(message, facts["fields"], set(message.valid.all()))
    _check_elements(message)
    return message


def _check_elements(message: Message) -> None:
    """The reader bounds an array's count by the bytes that are left, so every element must take at least one."""
    for structure in message.structures:
        for version in structure.versions:
            is_plain = any(version in field.versions and not field.is_tagged for field in structure.fields)
            if version not in message.flexible and not is_plain:
                raise ValueError(f"{message.name}.{structure.name} has nothing in version {version}")


def _field(row: dict[str, Any], kafka_type: str, structure: Structure | None, versions: Versions) -> Field:
    tagged = parse_versions(row.get("taggedVersions", "none"))
    if tagged not in (versions, NO_VERSIONS):
        raise ValueError(f"{row['name']} is tagged in some of its versions only: Kafka has no such field")
    return Field(
        name=snake_case(row["name"]),
        kafka_type=kafka_type,
        is_array=row["type"].startswith("[]"),
        structure=structure,
        versions=versions,
        nullable=parse_versions(row.get("nullableVersions", "none")),
        tagged=tagged,
        tag=row.get("tag", -1),
        default=_default(row),
        ignorable=row.get("ignorable", False),
    )


EMPTY = "a new empty list or default structure"


def _default(row: dict[str, Any]) -> Default:
    """A JSON null is no default at all, as Kafka's own generator has it: only the word "null" means null."""
    kind, given = row["type"], row.get("default")
    if given == "null" or (kind == "records" and "nullableVersions" in row):
        return None
    if kind.startswith("[]") or kind not in PYTHON_TYPES:
        return EMPTY
    if kind == "bool":
        return given in (True, "true")
    if kind == "uuid":
        return bytes(16)
    if PYTHON_TYPES[kind] == "int":
        return int(str(given or 0), 0)
    if kind == "string":
        return str(given or "")
    return 0.0 if kind == "float64" else b""


def parse_versions(text: str) -> Versions:
    """`3`, `3-5`, `3+` or `none`."""
    if text == "none":
        return NO_VERSIONS
    if text.endswith("+"):
        return Versions(int(text[:-1]), NEVER)
    lowest, _, highest = text.partition("-")
    return Versions(int(lowest), int(highest or lowest))


def snake_case(name: str) -> str:
    """`TopicData` -> `topic_data`, `ISRs` -> `isrs`, `V3AndBelowTopics` -> `v3_and_below_topics`."""
    words = re.sub(r"([a-z0-9])([A-Z])", r"\1_\2", name)
    return re.sub(r"([A-Z]+)([A-Z][a-z])", r"\1_\2", words).lower()
