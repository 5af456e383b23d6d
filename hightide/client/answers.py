"""The error codes in answers: a broker may be newer than we are, so a code may be one that we have no name for."""

from hightide.errors import ErrorCode


def code_of(number: int) -> ErrorCode:
    """The code that a broker sent; one from the future is UNKNOWN_SERVER_ERROR, as in the Java client."""
    try:
        return ErrorCode(number)
    except ValueError:
        return ErrorCode.UNKNOWN_SERVER_ERROR
