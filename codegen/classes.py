"""The text of one class: slots, `__init__` with the schema's defaults, `write` and `read`."""

from codegen.layouts import INDENT, branches, spread
from codegen.reading import Layouts, default, read_steps
from codegen.schema import EMPTY, NEVER, Field, Message, Structure
from codegen.writing import write_steps


def render_class(structure: Structure, message: Message, base: str, layouts: Layouts) -> list[str]:
    """The lines of the class of a message or of one of its structures."""
    is_message = structure is message
    return [
        f"class {structure.class_name}({base}):",
        *_indent([*spread("__slots__ = (", _slots(structure), ")", 1), ""]),
        *_indent([*_facts(message), ""] if is_message else []),
        *_indent(_init(structure)),
        "",
        *_indent(["def write(self, out: bytearray, version: int) -> None:"]),
        *_indent(_check(message, "self") if is_message else [], 2),
        *_indent(branches(write_steps(structure, message, layouts)), 2),
        "",
        *_indent(["@classmethod", "def read(cls, reader: Reader, version: int) -> Self:"]),
        *_indent(_check(message, "cls") if is_message else [], 2),
        *_indent(["self = cls.__new__(cls)"], 2),
        *_indent(branches(read_steps(structure, message, layouts)), 2),
        *_indent(["return self"], 2),
    ]


def _indent(lines: list[str], depth: int = 1) -> list[str]:
    return [INDENT * depth + line if line else line for line in lines]


def _slots(structure: Structure) -> list[str]:
    names = [f'"{field.name}"' for field in structure.fields]
    return [names[0] + ","] if len(names) == 1 else names


def _facts(message: Message) -> list[str]:
    flexible = "NEVER_FLEXIBLE" if message.flexible_from == NEVER else str(message.flexible_from)
    numbers = [f"{'api_key' if message.kind in ('request', 'response') else 'record_type'} = {message.number}"]
    return [
        *(numbers if message.number is not None else []),
        f"valid_versions = ({message.valid.lowest}, {message.valid.highest})",
        f"flexible_from = {flexible}",
    ]


def _check(message: Message, subject: str) -> list[str]:
    lowest, highest = message.valid.lowest, message.valid.highest
    return [
        f"if version != {lowest}:" if lowest == highest else f"if not {lowest} <= version <= {highest}:",
        f"    raise unsupported_version({subject}, version)",
    ]


def _init(structure: Structure) -> list[str]:
    parameters = [f"{field.name}: {field.annotation} = {_parameter_default(field)}" for field in structure.fields]
    return [
        "def __init__(",
        *_indent([f"{line}," for line in ("self", "*", *parameters)]),
        *_indent(["unknown_tagged_fields: dict[int, bytes] | None = None,"]),
        ") -> None:",
        *_indent([f"self.{field.name} = {_initial(field)}" for field in structure.fields]),
        *_indent(["self.unknown_tagged_fields = unknown_tagged_fields"]),
    ]


def _parameter_default(field: Field) -> str:
    return "FRESH" if field.default == EMPTY else default(field)


def _initial(field: Field) -> str:
    return f"{default(field)} if {field.name} is FRESH else {field.name}" if field.default == EMPTY else field.name
