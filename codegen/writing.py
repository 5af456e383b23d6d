"""One structure's `write`: how each field is appended to the output, in each version, and what a version refuses."""

from collections.abc import Iterator

from codegen.layouts import Lines, Step, spread
from codegen.reading import ARRAYS, Layouts, default, runs, since, tagged_fields
from codegen.schema import EMPTY, FIXED, Field, Message, Structure, snake_case

CONSTANTS = {
    "int8": "INT8", "int16": "INT16", "uint16": "UINT16", "int32": "INT32", "int64": "INT64",
    "float64": "FLOAT64", "bool": "BOOLEAN",
}  # fmt: skip

ITEMS = {"string": "text", "uuid": "uuid"}  # what the element of an array is called in a loop


def write_steps(structure: Structure, message: Message, layouts: Layouts) -> Iterator[Step]:
    """The steps that append every field. A uuid is written by itself: `struct` would cut or pad a wrong one."""
    versions = sorted(structure.versions)
    for run in runs(structure.fields, lambda field: field.is_fixed and field.kafka_type != "uuid"):
        yield {version: _write_run(run, version, message, layouts) for version in versions}
    yield {version: _write_tagged(structure, version, message) for version in versions}


def _write_run(run: list[Field], version: int, message: Message, layouts: Layouts) -> Lines:
    present = [field for field in run if version in field.versions]
    lines: Lines = ()
    for field in run:
        if version not in field.versions and not field.ignorable:
            lines += _refuse(field)
    if len(present) > 1:
        return lines + spread(f"out += {layouts.name(present)}.pack(", [f"self.{field.name}" for field in present], ")")
    for field in present:
        lines += write_field(field, version, version in message.flexible, "out")
    return lines


def _refuse(field: Field) -> Lines:
    return (f"if {_differs(field)}:", f'    raise absent_field(self, "{field.name}", version)')


def _differs(field: Field) -> str:
    """The condition that the field does not have its default value."""
    value = f"self.{field.name}"
    if field.default is None:
        return f"{value} is not None"
    if field.default == EMPTY and field.is_array:
        return f"({value} is None or {value})" if field.is_optional else value
    if field.kafka_type == "bool":
        return f"not {value}" if field.default else value
    return f"{value} != {default(field)}"


def write_field(field: Field, version: int, is_flexible: bool, out: str) -> Lines:
    """The lines that append one field to `out`."""
    value = f"self.{field.name}"
    if not field.is_optional:
        return _write_value(field, value, is_flexible, out)
    if field.is_tagged and field.default is None:
        return _write_present(field, value, is_flexible, out)  # null is not written at all
    if version not in field.nullable:
        refusal = (f"if {value} is None:", f'    raise null_field(self, "{field.name}", version)')
        return refusal + _write_value(field, value, is_flexible, out)
    if not field.is_array and not field.structure:
        kind = "bytes" if field.kafka_type == "records" else field.kafka_type
        return (f"write_{'compact_' if is_flexible else ''}nullable_{kind}({out}, {value})",)
    return (
        f"if {value} is None:",
        f"    {_write_null(field, is_flexible, out)}",
        "else:",
        *(f"    {line}" for line in _write_present(field, value, is_flexible, out)),
    )


def _write_present(field: Field, value: str, is_flexible: bool, out: str) -> Lines:
    """The lines for a value that could have been null; a structure says with a byte that it is not."""
    lines = _write_value(field, value, is_flexible, out)
    return lines if field.is_array or not field.structure else (f"{out}.append(1)", *lines)


def _write_null(field: Field, is_flexible: bool, out: str) -> str:
    if not field.is_array:
        return f"{out}.append({'0' if field.is_tagged else '0xFF'})"
    return f"{out}.append(0)" if is_flexible else f"{out} += INT32.pack(-1)"


def _write_value(field: Field, value: str, is_flexible: bool, out: str) -> Lines:
    """The lines for a value that is not null."""
    if not field.is_array:
        return (_write_one(field, value, is_flexible, out),)
    count = f"write_{'compact_' if is_flexible else ''}count({out}, {value})"
    if field.kafka_type in ARRAYS:
        return (count, f"write_{field.kafka_type}s({out}, {value})")
    item = snake_case(field.structure.name) if field.structure else ITEMS[field.kafka_type]
    return (count, f"for {item} in {value}:", f"    {_write_one(field, item, is_flexible, out)}")


def _write_one(field: Field, value: str, is_flexible: bool, out: str) -> str:
    if field.structure:
        return f"{value}.write({out}, version)"
    if field.kafka_type == "uuid":
        return f"write_uuid({out}, {value})"
    if field.kafka_type in FIXED:
        return f"{out} += {CONSTANTS[field.kafka_type]}.pack({value})"
    kind = "bytes" if field.kafka_type == "records" else field.kafka_type
    return f"write_{'compact_' if is_flexible else ''}{kind}({out}, {value})"


def _write_tagged(structure: Structure, version: int, message: Message) -> Lines:
    known = tagged_fields(structure)
    if version not in message.flexible:
        refusals = [line for field in known if not field.ignorable for line in _refuse(field)]
        unknown = ("if self.unknown_tagged_fields:", '    raise absent_field(self, "unknown_tagged_fields", version)')
        return (*refusals, *unknown)
    if not known:
        return ("write_tagged_fields(out, None, self.unknown_tagged_fields)",)
    lines = ["tagged: dict[int, bytearray] = {}"]
    for field in known:
        condition = since(field, structure, message)
        lines += [f"if {condition}{_differs(field)}:", f"    tagged[{field.tag}] = field = bytearray()"]
        lines += ["    " + line for line in write_field(field, field.tagged.lowest, True, "field")]
        if condition and not field.ignorable:
            lines += [f"if version < {field.tagged.lowest} and {_differs(field)}:", _refuse(field)[1]]
    lines.append("write_tagged_fields(out, tagged, self.unknown_tagged_fields)")
    return tuple(lines)
