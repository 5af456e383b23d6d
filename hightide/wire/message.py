"""What every generated message can do: encode, decode, compare and print itself.

Plain classes with slots, so that importing a message module costs little and a decoded message is small.
"""

from struct import error as StructError  # noqa: N812 - struct names its exception in lower case
from typing import Any, ClassVar, Self

from hightide.errors import ProtocolError
from hightide.wire.primitives import Octets, Reader

NEVER_FLEXIBLE = 0x7FFF  # `flexible_from` of a message without flexible versions: above every version


class Structure:
    """A part of a message. Equality is by value; the text holds no address, so that traces compare."""

    __slots__ = ("unknown_tagged_fields",)
    __hash__ = None  # type: ignore[assignment]

    unknown_tagged_fields: dict[int, bytes] | None

    def write(self, out: bytearray, version: int) -> None:
        """Appends this structure in a version's layout."""
        raise NotImplementedError

    @classmethod
    def read(cls, reader: Reader, version: int) -> Self:
        """The structure at the reader's position; ProtocolError when the bytes are not one."""
        raise NotImplementedError

    def keep_unknown_tagged_field(self, tag: int, value: memoryview) -> None:
        """Keeps what a newer peer said, to be written back."""
        if self.unknown_tagged_fields is None:
            self.unknown_tagged_fields = {}
        self.unknown_tagged_fields[tag] = bytes(value)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return (self.unknown_tagged_fields or None) == (other.unknown_tagged_fields or None) and all(
            getattr(self, name) == getattr(other, name) for name in self.__slots__
        )

    def __repr__(self) -> str:
        shown = [f"{name}={_show(getattr(self, name))}" for name in self.__slots__]
        if self.unknown_tagged_fields:
            shown.append(f"unknown_tagged_fields={self.unknown_tagged_fields}")
        return f"{type(self).__name__}({', '.join(shown)})"


class Message(Structure):
    """A whole message, which knows its versions."""

    __slots__ = ()

    valid_versions: ClassVar[tuple[int, int]]
    flexible_from: ClassVar[int]

    def encode(self, version: int) -> bytes:
        """The message's bytes; ProtocolError when this version cannot say what the message says."""
        out = bytearray()
        try:
            self.write(out, version)
        except StructError as error:
            raise ProtocolError(f"{type(self).__name__} version {version}: {error}") from None
        return bytes(out)

    @classmethod
    def decode(cls, data: Octets, version: int) -> Self:
        """The message that fills `data` exactly."""
        reader = Reader(data)
        message = cls.read(reader, version)
        reader.expect_end()
        return message


class ApiMessage(Message):
    """A request or a response."""

    __slots__ = ()

    api_key: ClassVar[int]


class LogRecord(Message):
    """The key or the value of a record in one of the cluster's own logs."""

    __slots__ = ()

    record_type: ClassVar[int]


def unsupported_version(message: type[Message] | Message, version: int) -> ProtocolError:
    """A version that the message does not have."""
    name = message.__name__ if isinstance(message, type) else type(message).__name__
    return ProtocolError(f"{name} has no version {version}")


def absent_field(structure: Structure, name: str, version: int) -> ProtocolError:
    """A field is set that this version does not have and that must not be dropped silently."""
    return ProtocolError(f"{type(structure).__name__}.{name} is set, but version {version} does not have it")


def null_field(structure: Structure, name: str, version: int) -> ProtocolError:
    """A field is null in a version where it may not be."""
    return ProtocolError(f"{type(structure).__name__}.{name} may not be null in version {version}")


def _show(value: Any) -> str:
    return f"<{len(value)} bytes>" if isinstance(value, memoryview) else repr(value)
