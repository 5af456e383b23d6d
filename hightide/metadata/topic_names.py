"""Which names a topic may have."""

from hightide.errors import ApiError, ErrorCode
from hightide.limits import TOPIC_NAME_LENGTH_MAX
from hightide.metadata.index import Index, folded

_ALLOWED = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")


def check_topic_name(name: str) -> None:
    """INVALID_TOPIC_EXCEPTION, in Kafka's words, for a name that cannot be a directory's."""
    if not name:
        problem = "the empty string is not allowed"
    elif name in (".", ".."):
        problem = f"'{name}' is not allowed"
    elif len(name) > TOPIC_NAME_LENGTH_MAX:
        problem = f"the length of '{name}' is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}"
    elif not _ALLOWED.issuperset(name):
        problem = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {problem}")


class NewNames:
    """The names that one request creates, seen beside those that exist."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._new: dict[str, str] = {}

    def check(self, name: str) -> None:
        """INVALID_TOPIC_EXCEPTION when a name differs from another in `.` and `_` only."""
        others = [*self._index.colliding(name), *([self._new[folded(name)]] if folded(name) in self._new else [])]
        if others:
            what = f"Topic '{name}' collides with existing topic: {others[0]}"
            raise ApiError(ErrorCode.INVALID_TOPIC_EXCEPTION, what)

    def add(self, name: str) -> None:
        """The name is taken from now on."""
        self._new[folded(name)] = name
