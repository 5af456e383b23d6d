"""Messages for tests, made from the schema and not from the generated code: random ones, and full samples.

`wide` says all that the protocol can say. `tame` stays within what the Python clients that serve as oracles can hold:
they turn error codes, times and durations into objects that not every integer has, and know no tag of ours.
"""

from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any

from hypothesis import strategies as st

from codegen import modules, schema
from hightide.error_codes import ErrorCode
from hightide.wire.message import Message, Structure

PLAN = modules.plan_modules(schema.load())
WIDTHS = {"int8": (8, True), "int16": (16, True), "uint16": (16, False), "int32": (32, True), "int64": (64, True)}
UNKNOWN_TAGS = st.dictionaries(st.sampled_from([77, 4_000, 20_000, 300_000_000]), st.binary(max_size=5), max_size=2)


@dataclass(frozen=True)
class Subject:
    """A message with the class that is generated for it."""

    module: str
    schema: schema.Message

    @property
    def message_class(self) -> type[Message]:
        """The generated class."""
        return _class(self.module, self.schema.class_name)  # type: ignore[return-value]

    @property
    def versions(self) -> range:
        """Every version, the unstable one too."""
        return self.schema.valid.all()

    def __str__(self) -> str:
        return self.schema.name


SUBJECTS = [Subject(module, message) for module, (_, messages) in PLAN.items() for message in messages]
API_SUBJECTS = [subject for subject in SUBJECTS if subject.schema.kind in ("request", "response")]


@cache
def _class(module: str, name: str) -> type[Structure]:
    return getattr(import_module(f"hightide.wire.messages.{module}"), name)  # type: ignore[no-any-return]


def wide(subject: Subject, version: int) -> st.SearchStrategy[Message]:
    """Any message that this version can say, with tagged fields of strangers."""
    return _structures(subject, subject.schema, version, False)  # type: ignore[return-value]


def tame(subject: Subject, version: int) -> st.SearchStrategy[Message]:
    """A message that this version can say and that every oracle can hold."""
    return _structures(subject, subject.schema, version, True)  # type: ignore[return-value]


@cache
def _structures(
    subject: Subject, structure: schema.Structure, version: int, is_tame: bool
) -> st.SearchStrategy[Structure]:
    fields: dict[str, Any] = {
        field.name: _values(subject, field, version, is_tame)
        for field in structure.fields
        if version in field.versions and not (is_tame and field.tag >= schema.OWN_FROM)
    }
    if not is_tame and version in subject.schema.flexible:
        fields["unknown_tagged_fields"] = st.none() | UNKNOWN_TAGS
    return st.builds(_class(subject.module, structure.class_name), **fields)


def _values(subject: Subject, field: schema.Field, version: int, is_tame: bool) -> st.SearchStrategy[Any]:
    if field.structure:
        values: st.SearchStrategy[Any] = _structures(subject, field.structure, version, is_tame)
    else:
        values = _primitives(field.kafka_type, field.name if is_tame else "")
    if field.is_array:
        values = st.lists(values, max_size=2)
    return st.none() | values if version in field.nullable else values


@cache
def _primitives(kafka_type: str, tame_name: str) -> st.SearchStrategy[Any]:
    if tame_name.endswith("error_code"):
        return st.sampled_from([int(code) for code in ErrorCode])
    if kafka_type == "int64" and ("time" in tame_name or tame_name.endswith("_ms")):
        return st.integers(0, 2**40)
    if kafka_type in WIDTHS:
        bits, is_signed = WIDTHS[kafka_type]
        return st.integers(-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if is_signed else st.integers(0, 2**bits - 1)
    if kafka_type == "float64":
        return st.floats(allow_nan=False)
    return {
        "bool": st.booleans(),
        "string": st.text(max_size=4) | st.sampled_from(["Δ" * 70, "x" * 300]),
        "bytes": st.binary(max_size=4) | st.just(b"y" * 130),
        "records": st.binary(max_size=4) | st.just(b"z" * 20_000),
        "uuid": st.binary(min_size=16, max_size=16),
    }[kafka_type]


SAMPLES: dict[str, Any] = {
    "bool": True, "string": "é", "bytes": b"\x01\x02", "records": b"\x03\x04\x05", "uuid": bytes(range(16)),
    "float64": 1.5, "int8": 3, "int16": 25, "uint16": 40_000, "int32": 65_539, "int64": 2**40 + 3,
}  # fmt: skip


def full_sample(subject: Subject, version: int, *, elements: int = 2, is_tame: bool = False) -> Message:
    """Every field of the version set, some elements in every array and, unless tame, a stranger's tagged field."""
    return _sample(subject, subject.schema, version, elements, is_tame)  # type: ignore[return-value]


def _sample(subject: Subject, structure: schema.Structure, version: int, elements: int, is_tame: bool) -> Structure:
    values: dict[str, Any] = {}
    for field in structure.fields:
        if version in field.versions and not (is_tame and field.tag >= schema.OWN_FROM):
            one = SAMPLES.get(field.kafka_type)
            if field.structure:
                one = _sample(subject, field.structure, version, elements, is_tame)
            values[field.name] = [one] * elements if field.is_array else one
    if version in subject.schema.flexible and not is_tame:
        values["unknown_tagged_fields"] = {999: b"later"}
    return _class(subject.module, structure.class_name)(**values)
