"""One structure's `read`: how each field is taken from the reader, in each version."""

from collections.abc import Callable, Iterator

from codegen.layouts import Lines, Step, spread
from codegen.schema import EMPTY, FIXED, Field, Message, Structure

ARRAYS = {"int8", "int16", "int32", "int64"}  # element types that are read and written all at once


class Layouts:
    """The fixed-width layouts that a module needs, each a named `struct.Struct`."""

    def __init__(self) -> None:
        self.formats: dict[str, str] = {}

    def name(self, fields: list[Field]) -> str:
        """The name of the layout of these fields, e.g. `_IHQ` for int32, int16, int64."""
        letters = [FIXED[field.kafka_type] for field in fields]
        name = "_" + "".join(LETTERS.get(letter, letter.upper()) for letter in letters)
        self.formats[name] = ">" + "".join(letters)
        return name


LETTERS = {"H": "W", "?": "T", "16s": "U"}  # uint16 is a word, a bool a truth value, a uuid a uuid


def read_steps(structure: Structure, message: Message, layouts: Layouts) -> Iterator[Step]:
    """The steps that assign every attribute of `self` once."""
    versions = sorted(structure.versions)
    for run in runs(structure.fields, lambda field: field.is_fixed):
        yield {version: _read_run(run, version, message, layouts) for version in versions}
    defaults = tuple(f"self.{field.name} = {default(field)}" for field in tagged_fields(structure))
    yield dict.fromkeys(versions, defaults)
    yield {version: _read_tagged(structure, version, message) for version in versions}


def runs(fields: list[Field], joins: Callable[[Field], bool]) -> Iterator[list[Field]]:
    """Neighbouring fields that can be packed together, and the others one by one; tagged ones stand elsewhere."""
    run: list[Field] = []
    for field in fields:
        if field.is_tagged:
            continue
        if run and not (joins(field) and joins(run[-1])):
            yield run
            run = []
        run.append(field)
    if run:
        yield run


def _read_run(run: list[Field], version: int, message: Message, layouts: Layouts) -> Lines:
    present = [field for field in run if version in field.versions]
    absent = [field for field in run if version not in field.versions]
    lines: Lines = ()
    if len(present) > 1:
        lines += spread("(", [f"self.{field.name}" for field in present], f") = reader.unpack({layouts.name(present)})")
    else:
        for field in present:
            lines += read_field(field, version, version in message.flexible)
    return lines + tuple(f"self.{field.name} = {default(field)}" for field in absent)


def read_field(field: Field, version: int, is_flexible: bool) -> Lines:
    """The lines that read one field where it stands."""
    target = f"self.{field.name}"
    is_nullable = version in field.nullable
    if field.is_array:
        count = f"reader.read_{_prefix(is_flexible, is_nullable)}array_count()"
        if field.kafka_type in ARRAYS and not is_nullable:
            return (f"{target} = {_elements(field, count, is_flexible)}",)
        elements = _elements(field, "count", is_flexible)
        return (
            f"count = {count}",
            f"{target} = None if count < 0 else {elements}" if is_nullable else f"{target} = {elements}",
        )
    if field.structure:
        value = f"{field.structure.class_name}.read(reader, version)"
        # Kafka marks a null structure in two ways: -1 in its place, 0 among the tagged fields.
        present = "reader.read_unsigned_varint() > 0" if field.is_tagged else "reader.read_int8() >= 0"
        return (f"{target} = {value} if {present} else None" if is_nullable else f"{target} = {value}",)
    return (f"{target} = {_one(field.kafka_type, is_flexible, is_nullable)}",)


def _elements(field: Field, count: str, is_flexible: bool) -> str:
    if field.structure:
        return f"[{field.structure.class_name}.read(reader, version) for _ in range({count})]"
    if field.kafka_type in ARRAYS:
        return f"reader.read_{field.kafka_type}s({count})"
    return f"[{_one(field.kafka_type, is_flexible, False)} for _ in range({count})]"


def _one(kafka_type: str, is_flexible: bool, is_nullable: bool) -> str:
    if kafka_type in FIXED:
        return f"reader.read_{'boolean' if kafka_type == 'bool' else kafka_type}()"
    return f"reader.read_{_prefix(is_flexible, is_nullable)}{kafka_type}()"


def _prefix(is_flexible: bool, is_nullable: bool) -> str:
    return ("compact_" if is_flexible else "") + ("nullable_" if is_nullable else "")


def tagged_fields(structure: Structure) -> list[Field]:
    """The fields that only ever travel in the tagged section, in the order of their tags."""
    return sorted((field for field in structure.fields if field.is_tagged), key=lambda field: field.tag)


def since(field: Field, structure: Structure, message: Message) -> str:
    """The condition under which a tag is known, when not every flexible version knows it."""
    flexible = min(version for version in structure.versions if version in message.flexible)
    return f"version >= {field.tagged.lowest} and " if field.tagged.lowest > flexible else ""


def _read_tagged(structure: Structure, version: int, message: Message) -> Lines:
    if version not in message.flexible:
        return ("self.unknown_tagged_fields = None",)
    known = tagged_fields(structure)
    if not known:
        return ("self.unknown_tagged_fields = reader.read_unknown_tagged_fields()",)
    lines = ["self.unknown_tagged_fields = None", "for tag, size in reader.read_tags():"]
    for index, field in enumerate(known):
        lines.append(f"    {'elif' if index else 'if'} {since(field, structure, message)}tag == {field.tag}:")
        lines += ["        " + line for line in read_field(field, field.tagged.lowest, True)]
    lines += ["    else:", "        self.keep_unknown_tagged_field(tag, reader.read_view(size))"]
    return tuple(lines)


def default(field: Field) -> str:
    """The default as an expression, new for every object."""
    if field.default == EMPTY:
        return "[]" if field.is_array else f"{field.structure.class_name}()" if field.structure else '""'
    if field.kafka_type == "uuid" and not field.is_array:
        return "ZERO_UUID"
    return repr(field.default).replace("'", '"') if isinstance(field.default, str | bytes) else repr(field.default)
