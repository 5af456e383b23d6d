"""One TCP connection that speaks Kafka's protocol with kio's messages: what no client library lets a test say.

kio is independent of hightide.wire, so an error in our own codecs cannot hide itself here. Requests are given as plain
dictionaries; answers come back as kio's dataclasses.
"""

from __future__ import annotations

import dataclasses
import datetime
import io
import socket
import struct
import types
import typing
from typing import Any

from kio.index import load_request_schema, load_response_schema
from kio.schema.index import api_key_map
from kio.schema.response_header.v0.header import ResponseHeader as ResponseHeaderV0
from kio.serial import entity_reader, entity_writer

API_KEYS: dict[str, int] = {name: key for key, name in api_key_map.items()}


class Connection:
    """A blocking socket with Kafka's framing; every read has a deadline, so a silent broker fails the test."""

    def __init__(self, bootstrap: str, timeout_seconds: float = 15.0) -> None:
        host, port = bootstrap.rsplit(":", 1)
        self.socket = socket.create_connection((host, int(port)), timeout=timeout_seconds)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._correlation_id = 0

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        """Send a request and return its decoded response."""
        correlation_id = self.send(api, version, **fields)
        return self.receive(api, version, correlation_id)

    def send(self, api: str, version: int, **fields: Any) -> int:
        self._correlation_id += 1
        self.send_frame(request_bytes(api, version, self._correlation_id, fields))
        return self._correlation_id

    def receive(self, api: str, version: int, correlation_id: int) -> Any:
        frame = self.receive_frame()
        assert frame is not None, f"the broker closed the connection instead of answering {api} v{version}"
        schema = load_response_schema(API_KEYS[api], version)
        header_schema = ResponseHeaderV0 if api == "api_versions" else schema.__header_schema__
        header, position = entity_reader(header_schema)(frame, 0)
        assert header.correlation_id == correlation_id, "answers must come in the order of the requests"
        response, size = entity_reader(schema)(frame, position)
        assert position + size == len(frame), f"{len(frame) - position - size} stray bytes behind {api} v{version}"
        return response

    def send_frame(self, payload: bytes) -> None:
        self.send_bytes(struct.pack(">i", len(payload)) + payload)

    def send_bytes(self, data: bytes) -> None:
        self.socket.sendall(data)

    def receive_frame(self) -> bytes | None:
        """The next frame, or None when the broker closed the connection."""
        length = self._receive_exactly(4)
        return None if length is None else self._receive_exactly(struct.unpack(">i", length)[0])

    def is_closed_by_broker(self) -> bool:
        """True once the broker closed the connection without another byte; times out when it does neither."""
        try:
            return self.socket.recv(1) == b""
        except ConnectionResetError:
            return True

    def _receive_exactly(self, count: int) -> bytes | None:
        parts = bytearray()
        while len(parts) < count:
            try:
                part = self.socket.recv(count - len(parts))
            except ConnectionResetError:
                return None
            if not part:
                return None
            parts += part
        return bytes(parts)


def request_bytes(api: str, version: int, correlation_id: int, fields: dict[str, Any]) -> bytes:
    """Header and body of a request, as they stand in a frame."""
    schema = load_request_schema(API_KEYS[api], version)
    header_schema = schema.__header_schema__
    out = io.BytesIO()
    header = {
        "request_api_key": API_KEYS[api],
        "request_api_version": version,
        "correlation_id": correlation_id,
        "client_id": "conformance",
    }
    entity_writer(header_schema)(out, message(header_schema, header))
    entity_writer(schema)(out, message(schema, fields))
    return out.getvalue()


def message(schema: Any, fields: dict[str, Any]) -> Any:
    """Build kio's dataclass from a dictionary: lists become tuples of nested messages, numbers become its times.

    A field that this version of the schema does not know is left out, so one dictionary serves all versions.
    """
    hints = typing.get_type_hints(schema)
    names = {field.name for field in dataclasses.fields(schema)}
    return schema(**{name: _value(hints[name], value) for name, value in fields.items() if name in names})


def _value(hint: Any, value: Any) -> Any:
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        if value is None:
            return None
        hint = next(choice for choice in typing.get_args(hint) if choice is not types.NoneType)
    if typing.get_origin(hint) is tuple:
        item = typing.get_args(hint)[0]
        return tuple(_value(item, part) for part in value)
    if dataclasses.is_dataclass(hint) and isinstance(value, dict):
        return message(hint, value)
    if isinstance(value, int) and issubclass(hint, datetime.timedelta):
        return datetime.timedelta(milliseconds=value)
    if isinstance(value, int) and issubclass(hint, datetime.datetime):
        return datetime.datetime.fromtimestamp(value / 1000, tz=datetime.UTC)
    return value
