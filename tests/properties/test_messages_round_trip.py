"""What we write we read back, in every version of every message, with what newer peers add."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hightide.errors import ProtocolError
from tests.properties.messages import SUBJECTS, Subject, full_sample, wide


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_decoding_gives_back_what_was_encoded(subject: Subject) -> None:
    @settings(max_examples=6, deadline=None)
    @given(data=st.data())
    def check(data: st.DataObject) -> None:
        version = data.draw(st.sampled_from(subject.versions))
        message = data.draw(wide(subject, version))
        encoded = message.encode(version)
        decoded = subject.message_class.decode(encoded, version)
        assert decoded == message
        assert decoded.encode(version) == encoded

    check()


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_full_message_survives_in_every_version(subject: Subject) -> None:
    for version in subject.versions:
        message = full_sample(subject, version)
        assert subject.message_class.decode(message.encode(version), version) == message


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_versions_outside_the_range_are_refused(subject: Subject) -> None:
    for version in (subject.versions[0] - 1, subject.versions[-1] + 1):
        with pytest.raises(ProtocolError):
            subject.message_class().encode(version)
        with pytest.raises(ProtocolError):
            subject.message_class.decode(b"", version)
