"""Bytes that are not a message give ProtocolError: no other exception, and no memory for what was only announced."""

import tracemalloc
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.errors import ProtocolError
from hightide.wire.message import Message
from tests.properties.messages import SUBJECTS, Subject, full_sample

# Written over every position of a sample, so over every length in it: an int32's and a varint's largest values, a
# negative length, a varint that does not end.
LENGTHS = (b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xfe", b"\x80\x80\x80\x80\x80\x80", b"\x00")
ALLOCATED_MAX = 16 << 20  # a length believed takes 2 GiB; other threads of the test run allocate a little meanwhile


def _sample(subject: Subject, version: int) -> bytes:
    """One element in every array: the work here grows with the square of the size."""
    return full_sample(subject, version, elements=1).encode(version)


def _survives(message_class: type[Message], data: bytes, version: int) -> None:
    """Either a message or a refusal; anything else fails the test."""
    try:
        message_class.decode(data, version)
    except ProtocolError:
        return


def _overwritten(encoded: bytes, patterns: tuple[bytes, ...]) -> Iterator[bytes]:
    for position in range(len(encoded)):
        for pattern in patterns:
            yield encoded[:position] + pattern + encoded[position + len(pattern) :]


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_every_truncation_is_refused(subject: Subject) -> None:
    for version in subject.versions:
        encoded = _sample(subject, version)
        for length in range(len(encoded)):
            with pytest.raises(ProtocolError):
                subject.message_class.decode(encoded[:length], version)


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_bytes_after_the_message_are_refused(subject: Subject) -> None:
    for version in subject.versions:
        encoded = _sample(subject, version)
        with pytest.raises(ProtocolError, match="after the end"):
            subject.message_class.decode(encoded + b"\x00", version)


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_every_corrupted_length_is_survived(subject: Subject) -> None:
    edges = {subject.versions[0], subject.versions[-1]}
    for version in edges:
        for damaged in _overwritten(_sample(subject, version), LENGTHS):
            _survives(subject.message_class, damaged, version)


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_length_allocates_nothing_before_its_bytes_are_there(subject: Subject) -> None:
    version = subject.versions[-1]
    samples = list(_overwritten(_sample(subject, version), LENGTHS[:2]))
    for damaged in samples[:1]:
        _survives(subject.message_class, damaged, version)  # what is cached at the first use does not count
    tracemalloc.start()
    try:
        for damaged in samples:
            _survives(subject.message_class, damaged, version)
        assert tracemalloc.get_traced_memory()[1] < ALLOCATED_MAX
    finally:
        tracemalloc.stop()


@settings(max_examples=300, deadline=None)
@given(subject=st.sampled_from(SUBJECTS), data=st.binary(max_size=60), pick=st.integers(0, 100))
def test_random_bytes_are_survived(subject: Subject, data: bytes, pick: int) -> None:
    _survives(subject.message_class, data, subject.versions[pick % len(subject.versions)])
