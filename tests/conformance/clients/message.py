"""What the conformance tests say about a record and about a client, in words that all the libraries share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

CREATE_TIME = "CreateTime"
LOG_APPEND_TIME = "LogAppendTime"

Header = tuple[str, bytes | None]


class Message(NamedTuple):
    """A record to send. Without a timestamp the client puts its own clock."""

    value: bytes | None
    key: bytes | None = None
    headers: tuple[Header, ...] = ()
    timestamp: int | None = None


class Received(NamedTuple):
    """A record as a client gave it to its application; kcat and aiokafka hide some of it (None)."""

    offset: int
    value: bytes | None
    key: bytes | None
    headers: tuple[Header, ...]
    timestamp: int
    timestamp_type: str | None

    @property
    def content(self) -> tuple[bytes | None, bytes | None, tuple[Header, ...]]:
        return self.key, self.value, self.headers


class Sent(NamedTuple):
    """What the producer's callback said: an offset (-1 when it cannot know) or Kafka's error code."""

    offset: int
    error: int = 0


class Client(Protocol):
    """One client library. `settings` are in the library's own words, for what only some tests need."""

    name: str
    bootstrap: str

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        settings: Mapping[str, object] | None = None,
    ) -> list[Sent]: ...

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]: ...

    def offset_for_time(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        """The first offset at or after the time, None when every record is older."""
