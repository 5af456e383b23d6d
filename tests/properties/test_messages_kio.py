"""Our bytes are kio's bytes, in every API and every version."""

import io

import pytest
from hypothesis import example, given, settings
from kio.index import load_request_schema, load_response_schema
from kio.serial import entity_reader, entity_writer

from hightide.wire.message import Message
from tests.properties.messages import API_SUBJECTS, Subject, full_sample, tame


@pytest.mark.parametrize("subject", API_SUBJECTS, ids=str)
def test_kio_reads_and_writes_the_same_bytes(subject: Subject) -> None:
    for version in subject.versions:
        _compare(subject, version)


def _compare(subject: Subject, version: int) -> None:
    load = load_request_schema if subject.schema.kind == "request" else load_response_schema
    their_class = load(subject.schema.number, version)
    read, write = entity_reader(their_class), entity_writer(their_class)

    @settings(max_examples=5, deadline=None)
    @given(message=tame(subject, version))
    @example(message=full_sample(subject, version, is_tame=True))
    def check(message: Message) -> None:
        encoded = message.encode(version)
        theirs, size = read(encoded, 0)
        assert size == len(encoded)
        out = io.BytesIO()
        write(out, theirs)
        assert out.getvalue() == encoded
        assert subject.message_class.decode(out.getvalue(), version) == message

    check()
