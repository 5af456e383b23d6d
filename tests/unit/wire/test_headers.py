"""Headers: which version stands before which body."""

import kafka.protocol.api_header
import pytest

from hightide.errors import ProtocolError
from hightide.wire.headers import (
    RequestHeader,
    read_response_header,
    response_header_flexible,
    write_response_header,
)
from hightide.wire.primitives import Reader

METADATA, API_VERSIONS, SASL_HANDSHAKE = 3, 18, 17


def _encode(header: RequestHeader) -> bytes:
    out = bytearray()
    header.write(out)
    return bytes(out)


@pytest.mark.parametrize("client_id", [None, "", "кафка"])
@pytest.mark.parametrize(("api_key", "version"), [(METADATA, 8), (METADATA, 9), (API_VERSIONS, 3), (SASL_HANDSHAKE, 1)])
def test_a_request_header_comes_back(api_key: int, version: int, client_id: str | None) -> None:
    header = RequestHeader(api_key, version, 77, client_id)
    encoded = _encode(header)
    assert RequestHeader.decode(encoded + b"body") == (header, len(encoded))
    assert RequestHeader.decode(memoryview(b"1234" + encoded), 4) == (header, 4 + len(encoded))


@pytest.mark.parametrize("is_flexible", [False, True])
def test_kafka_python_writes_the_same_header(is_flexible: bool) -> None:
    version = 9 if is_flexible else 8
    theirs = kafka.protocol.api_header.RequestHeader(
        request_api_key=METADATA, request_api_version=version, correlation_id=5, client_id="me"
    )
    assert theirs.encode(flexible=is_flexible) == _encode(RequestHeader(METADATA, version, 5, "me"))


def test_tagged_fields_of_a_header_are_skipped() -> None:
    encoded = _encode(RequestHeader(METADATA, 9, 1, "c"))[:-1] + b"\x01\x05\x02ab"
    assert RequestHeader.decode(encoded + b"body")[1] == len(encoded)


def test_an_unknown_version_of_api_versions_still_has_a_flexible_header() -> None:
    encoded = _encode(RequestHeader(API_VERSIONS, 3, 9, "c"))
    unknown = encoded[:2] + b"\x00\x7f" + encoded[4:]
    assert RequestHeader.decode(unknown) == (RequestHeader(API_VERSIONS, 127, 9, "c"), len(unknown))


def test_an_unknown_api_is_not_refused_here() -> None:
    assert RequestHeader.decode(b"\x03\xe7\x00\x00\x00\x00\x00\x01\xff\xff")[0].api_key == 999


@pytest.mark.parametrize("client_id", [None, "client"])
def test_truncated_headers_are_refused(client_id: str | None) -> None:
    encoded = _encode(RequestHeader(METADATA, 9, 1, client_id))
    for length in range(len(encoded)):
        with pytest.raises(ProtocolError):
            RequestHeader.decode(encoded[:length])


@pytest.mark.parametrize("tail", [b"\xff\xfe", b"\x7f\xff", b"\x00\x01\xff"])
def test_a_client_id_of_impossible_length_or_text_is_refused(tail: bytes) -> None:
    with pytest.raises(ProtocolError):
        RequestHeader.decode(b"\x00\x03\x00\x01\x00\x00\x00\x01" + tail)


@pytest.mark.parametrize(
    ("api_key", "version", "is_flexible"),
    [(METADATA, 8, False), (METADATA, 9, True), (API_VERSIONS, 3, False), (API_VERSIONS, 4, False)],
)
def test_the_response_header_is_flexible_except_for_api_versions(api_key: int, version: int, is_flexible: bool) -> None:
    assert response_header_flexible(api_key, version) is is_flexible
    out = bytearray()
    write_response_header(out, api_key, version, 41)
    assert len(out) == 4 + is_flexible
    reader = Reader(out)
    assert read_response_header(reader, api_key, version) == 41
    reader.expect_end()
