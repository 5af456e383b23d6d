"""What stands before a request's and a response's body.

The version of a header follows from the API and its version. One exception is old: the response to ApiVersions has
the oldest header whatever its version, since a client reads it before it knows what the broker understands.
"""

from struct import Struct
from typing import NamedTuple

from hightide.errors import ProtocolError
from hightide.wire.message import NEVER_FLEXIBLE
from hightide.wire.primitives import INT32, Octets, Reader, write_nullable_string, write_tagged_fields
from hightide.wire.versions import FLEXIBLE_FROM

API_VERSIONS_KEY = 18

_FIXED = Struct(">hhih")  # key, version, correlation id, and the length of the client id, which is always an int16


class RequestHeader(NamedTuple):
    """Who asks what. An unknown API is not refused here: the caller decides how a stranger is answered."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None

    @classmethod
    def decode(cls, frame: Octets, position: int = 0) -> "tuple[RequestHeader, int]":
        """The header of a frame and the position of its body."""
        size = len(frame)
        body = position + 10
        if body > size:
            raise ProtocolError(f"a request of {size - position} bytes has no header")
        api_key, api_version, correlation_id, length = _FIXED.unpack_from(frame, position)
        client_id = None
        if length >= 0:
            body += length
            if body > size:
                raise ProtocolError(f"a client id of {length} bytes where {size - body + length} are left")
            try:
                client_id = str(frame[body - length : body], "utf-8")
            except UnicodeDecodeError as error:
                raise ProtocolError(f"a client id is not UTF-8: {error.reason}") from None
        elif length != -1:
            raise ProtocolError(f"a client id of {length} bytes")
        if api_version >= FLEXIBLE_FROM.get(api_key, NEVER_FLEXIBLE):
            body = _skip_tagged_fields(frame, body)
        return cls(api_key, api_version, correlation_id, client_id), body

    def write(self, out: bytearray) -> None:
        """Appends the header, as a client does."""
        out += _FIXED.pack(self.api_key, self.api_version, self.correlation_id, 0)
        del out[-2:]
        write_nullable_string(out, self.client_id)
        if self.api_version >= FLEXIBLE_FROM.get(self.api_key, NEVER_FLEXIBLE):
            write_tagged_fields(out, None, None)


def _skip_tagged_fields(frame: Octets, position: int) -> int:
    if position < len(frame) and frame[position] == 0:
        return position + 1
    reader = Reader(frame, position)
    reader.read_unknown_tagged_fields()
    return reader.position


def response_header_flexible(api_key: int, version: int) -> bool:
    """Whether the response's header ends with tagged fields."""
    return api_key != API_VERSIONS_KEY and version >= FLEXIBLE_FROM[api_key]


def write_response_header(out: bytearray, api_key: int, version: int, correlation_id: int) -> None:
    """Appends what stands before a response's body."""
    out += INT32.pack(correlation_id)
    if response_header_flexible(api_key, version):
        out.append(0)


def read_response_header(reader: Reader, api_key: int, version: int) -> int:
    """The correlation id of a response; the reader then stands at the body."""
    correlation_id = reader.read_int32()
    if response_header_flexible(api_key, version):
        reader.read_unknown_tagged_fields()
    return correlation_id
