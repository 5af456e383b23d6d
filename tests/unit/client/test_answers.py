"""Codes that brokers send."""

from hightide.client.answers import code_of
from hightide.errors import ErrorCode


def test_known_codes_and_those_from_the_future() -> None:
    assert [code_of(number) for number in (0, 3, -1, 9999)] == [
        ErrorCode.NONE,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        ErrorCode.UNKNOWN_SERVER_ERROR,
        ErrorCode.UNKNOWN_SERVER_ERROR,
    ]
