"""What a setting is: a name, a type, a default, a check and a sentence for people.

Values are kept as Kafka keeps them, as text, and parsed once. Types carry Kafka's wire numbers and the sentences of a
refusal are Kafka's, because tools and tests of other clients compare both.
"""

from collections.abc import Callable, Iterable
from enum import IntEnum
from typing import Final

Value = bool | int | float | str | list[str] | None
Check = Callable[[str, Value], str | None]

INT32_MAX: Final = 2**31 - 1
INT64_MAX: Final = 2**63 - 1


class SettingType(IntEnum):
    """The type of a setting, numbered as in DescribeConfigs."""

    BOOLEAN = 1
    STRING = 2
    INT = 3
    SHORT = 4
    LONG = 5
    DOUBLE = 6
    LIST = 7
    CLASS = 8
    PASSWORD = 9


class SettingError(ValueError):
    """A value that a setting cannot have, or a name that is no setting."""


class Setting:
    """One declared setting. `default` is text in Kafka's form; None means that it is not set.

    `dynamic` settings may change while the broker runs. `broker_names` are, for a topic setting, the broker settings
    that stand in for it, most specific first.
    """

    __slots__ = ("broker_names", "check", "default", "documentation", "dynamic", "name", "type")

    def __init__(
        self,
        name: str,
        kind: SettingType,
        default: str | None,
        documentation: str,
        check: Check | None = None,
        *,
        dynamic: bool = False,
        broker_names: tuple[str, ...] = (),
    ) -> None:
        self.name = name
        self.type = kind
        self.default = default
        self.documentation = documentation
        self.check = check
        self.dynamic = dynamic
        self.broker_names = broker_names

    def __repr__(self) -> str:
        return f"Setting({self.name!r})"

    def parse(self, text: str) -> Value:
        """The typed value; SettingError, in Kafka's words, when the text is not one."""
        value = parse(self.name, self.type, text)
        problem = self.check(self.name, value) if self.check is not None else None
        if problem is not None:
            raise refusal(self.name, value, problem)
        return value


def refusal(name: str, value: object, problem: str) -> SettingError:
    """The error for a value that a setting cannot have."""
    shown = f"[{', '.join(value)}]" if isinstance(value, list) else value
    return SettingError(f"Invalid value {shown} for configuration {name}: {problem}")


def parse(name: str, kind: SettingType, text: str) -> Value:
    """Text as a value of a type, as Kafka's ConfigDef reads it."""
    stripped = text.strip()
    if kind is SettingType.BOOLEAN:
        return _boolean(name, stripped)
    if kind is SettingType.DOUBLE:
        return _double(name, stripped)
    if kind is SettingType.LIST:
        return split_list(stripped)
    if kind in _INTEGER_BITS:
        return _integer(name, kind, stripped)
    return stripped


def split_list(text: str) -> list[str]:
    """The parts of a LIST value."""
    return [part.strip() for part in text.split(",") if part.strip()]


def same_value(kind: SettingType, left: str, right: str) -> bool:
    """Whether two texts mean the same value; texts that are no value of the type equal only themselves."""
    try:
        return parse("", kind, left) == parse("", kind, right)
    except SettingError:
        return left == right


_INTEGER_BITS: Final = {SettingType.SHORT: 16, SettingType.INT: 32, SettingType.LONG: 64}


def _boolean(name: str, text: str) -> bool:
    lowered = text.lower()
    if lowered not in ("true", "false"):
        raise refusal(name, text, "Expected value to be either true or false")
    return lowered == "true"


def _integer(name: str, kind: SettingType, text: str) -> int:
    digits = text[1:] if text[:1] in ("+", "-") else text
    bound = 1 << (_INTEGER_BITS[kind] - 1)
    # int() also takes underscores and other scripts' digits, and long texts cost quadratic time.
    if digits.isascii() and digits.isdigit() and len(digits) <= 32 and -bound <= int(text) < bound:
        return int(text)
    raise refusal(name, text, f"Not a number of type {kind.name}")


def _double(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise refusal(name, text, "Not a number of type DOUBLE") from None


def at_least(low: int) -> Check:
    """A number that is not smaller."""
    return between(low, None)


def between(low: int, high: int | None) -> Check:
    """A number within bounds, both included."""

    def check(_name: str, value: Value) -> str | None:
        if not isinstance(value, int | float):
            return None
        if value < low:
            return f"Value must be at least {low}"
        if high is not None and value > high:
            return f"Value must be no more than {high}"
        return None

    return check


def between_or(low: int, high: int, special: int) -> Check:
    """A number within bounds, or one number outside them that means something else."""

    def check(_name: str, value: Value) -> str | None:
        if isinstance(value, int) and (value == special or low <= value <= high):
            return None
        return f"Value must be between {low} and {high} or equal to {special}"

    return check


def one_of(*choices: str) -> Check:
    """One of a few words."""

    def check(_name: str, value: Value) -> str | None:
        return None if value in choices else f"String must be one of: {', '.join(choices)}"

    return check


def only(choice: str, why: str) -> Check:
    """One word out of several that exist, because the others are not available; says why."""

    def check(_name: str, value: Value) -> str | None:
        return None if value == choice else f"only '{choice}' is available: {why}"

    return check


def cleanup_policy(_name: str, value: Value) -> str | None:
    """Kafka's two policies, either or both."""
    for part in _parts(value):
        if part not in ("compact", "delete"):
            return "String must be one of: compact, delete"
    return None


def throttled_replicas(name: str, value: Value) -> str | None:
    """Kafka's list of replicas whose replication is throttled."""
    parts = list(_parts(value))
    if parts == ["*"] or all(_is_replica(part) for part in parts):
        return None
    return (
        f"{name} must be the literal '*' or a list of replicas in the following format: "
        "[partitionId]:[brokerId],[partitionId]:[brokerId],..."
    )


def _is_replica(text: str) -> bool:
    partition, _, broker = text.partition(":")
    return partition.isascii() and partition.isdigit() and broker.isascii() and broker.isdigit()


def _parts(value: Value) -> Iterable[str]:
    return value if isinstance(value, list) else ()
