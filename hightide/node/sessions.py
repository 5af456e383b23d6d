"""One client connection as the node sees it: frames in, answers out in the order of the requests.

Produce requests are appended as they come and may wait for their commit side by side, up to a bound; every other
request that has to wait stops the reading of its connection until it is answered (RELIABILITY, Limits). So the number
of waiting requests is bounded by the number of connections.
"""

import logging
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from librt.strings import BytesWriter, read_i16_be, read_i32_be, write_i32_be

from hightide import limits
from hightide.errors import ApiError, ProtocolError, StorageError
from hightide.node.apis import API_VERSIONS, BROKER_APIS, PRODUCE, Api
from hightide.node.ports import Connection, Part
from hightide.node.refusals import Refused
from hightide.storage.files import FileSlice
from hightide.wire.framing import Frame, head_of_frame
from hightide.wire.primitives import Reader
from hightide.wire.versions import request_class

if TYPE_CHECKING:
    from asyncio import Task

    from hightide.node.node import Node

log = logging.getLogger("hightide.sessions")

_HEADER_BYTES: Final = 10  # api key, version, correlation id, length of the client id
_CLIENT_ID_LENGTH_AT: Final = 8
PARKED: None = None  # what a handler returns when the answer comes later, through `Request.answer`
PUT_ASIDE: tuple[Part, ...] = (b"",)  # the same, through `Request.conclude` and before its session's next request
NO_ANSWER: tuple[Part, ...] = ()  # acks=0


class Request:
    """One request on its way. Handlers of the hot path read its frame, which dies when the handler returns.

    `data` is the frame, `head` its first bytes in a form whose numbers are cheap to read, all of a small frame. The
    body begins at `position` in both.
    """

    __slots__ = ("api", "correlation_id", "data", "head", "parts", "position", "session", "size", "version")

    def __init__(
        self,
        session: "Session",
        api: Api,
        version: int,
        correlation_id: int,
        data: Frame,
        head: bytes,
        position: int,
    ) -> None:
        self.session = session
        self.api = api
        self.version = version
        self.correlation_id = correlation_id
        self.data = data
        self.head = head
        self.position = position
        self.size = len(data)
        self.parts: Sequence[Part] | None = None

    @property
    def body(self) -> memoryview:
        """What follows the header; readable while the handler runs."""
        return memoryview(self.data)[self.position :]

    @property
    def body_bytes(self) -> bytes:
        """The same, copied."""
        return self.head[self.position :] if self.head is self.data else bytes(self.data[self.position :])

    def forget_frame(self) -> None:
        """The handler has returned, and the receive buffer is used again."""
        self.data = self.head = b""

    @property
    def client_id(self) -> str:
        """What the client calls itself; readable while the handler runs."""
        length: int = read_i16_be(self.head, _CLIENT_ID_LENGTH_AT)
        return "" if length < 0 else bytes(self.data[_HEADER_BYTES : _HEADER_BYTES + length]).decode("utf-8", "replace")

    def framed(self, body: bytes) -> list[Part]:
        """The frame of an answer whose body is in memory."""
        return [self._header(len(body)) + body]

    def framed_parts(self, parts: Sequence[Part]) -> list[Part]:
        """The frame of an answer with pieces of files in it."""
        length = 0
        for part in parts:
            length += part.length if isinstance(part, FileSlice) else len(part)
        first = parts[0]
        if isinstance(first, bytes) and len(parts) == 1:
            return [self._header(length) + first]
        if isinstance(first, FileSlice):
            return [self._header(length), *parts]
        return [self._header(length) + first, *parts[1:]]

    def _header(self, body_length: int) -> bytes:
        out = BytesWriter()
        is_tagged = self.version >= self.api.flexible_from and self.api.key != API_VERSIONS
        write_i32_be(out, body_length + (5 if is_tagged else 4))
        write_i32_be(out, self.correlation_id)
        if is_tagged:
            out.append(0)
        return out.getvalue()

    def answer(self, parts: Sequence[Part]) -> None:
        """Answer a parked request."""
        self.session.answered(self, parts)

    def conclude(self, parts: Sequence[Part] | None) -> None:
        """What became of a request that was put aside: what its handler would have returned."""
        session = self.session
        session.has_put_aside = False
        session.handled(self, parts)


class Session:
    """`node.ports.Receiver` of one client connection."""

    __slots__ = (
        "_parked_bytes", "_queue", "_stopping", "clock", "closed_callbacks", "connection", "has_put_aside", "host",
        "is_closed", "is_used", "last_used", "leader_throttle", "listener_name", "node", "partitions", "quorum_answer",
        "refused", "serves", "stats",
    )  # fmt: skip

    def __init__(
        self, node: "Node", connection: Connection, listener_name: str, serves: Mapping[int, Api] = BROKER_APIS
    ) -> None:
        self.node = node
        self.clock, self.stats = node.clock, node.stats  # at hand, because every request asks for them
        self.partitions = node.assignments.by_topic
        self.leader_throttle = node.leader_throttle
        self.connection = connection
        self.serves = serves
        self.quorum_answer = (-1, 0.0, -1)  # epoch, time (R16) and high watermark of the last answer to a quorum fetch
        self.listener_name = listener_name  # clients are told the addresses of the listener they came through
        self.host = connection.peer.rpartition(":")[0]
        self.is_closed = False
        self.has_put_aside = False
        self.last_used = node.clock.now()
        self.is_used = False
        self.closed_callbacks: dict[Callable[[], None], None] = {}
        self.refused: Refused = {}
        self._queue: deque[Request] = deque()
        self._parked_bytes = 0
        self._stopping = False

    def frame(self, data: Frame) -> None:
        """Handle one request. A ProtocolError closes the connection, and so does a bug, which is logged."""
        self.is_used = True
        if self.has_put_aside:
            self.node.burst.settle()
        try:
            request = self._parse(data)
            if request is None:
                return
            api = request.api
            parts = api.handler()(self.node, request) if api.is_raw else self._handle_message(api, request)
        except ProtocolError as error:
            self.node.stats.protocol_errors += 1
            log.warning("closed %s: %s", self.connection.peer, error)
            self.connection.close()
            return
        except Exception:
            self.fail()
            return
        if parts is PUT_ASIDE:
            self.has_put_aside = True
        else:
            self.handled(request, parts)

    def handled(self, request: Request, parts: Sequence[Part] | None) -> None:
        """A request was handled: send its answer, behind those of the requests before it."""
        if parts is PARKED:
            self._park(request)
        elif self._queue:
            request.parts = parts
            self._queue.append(request)
        elif parts:
            self.connection.send(parts)

    def _parse(self, data: Frame) -> Request | None:
        size = len(data)
        if size < _HEADER_BYTES:
            raise ProtocolError(f"a frame of {size} bytes is too short for a request header")
        head = head_of_frame(data)
        key: int = read_i16_be(head, 0)
        version: int = read_i16_be(head, 2)
        correlation_id: int = read_i32_be(head, 4)
        client_id_length: int = read_i16_be(head, _CLIENT_ID_LENGTH_AT)
        api = self.serves.get(key)
        if api is None:
            raise ProtocolError(f"api key {key} is not served here")
        if not api.first <= version <= api.last:
            if key != API_VERSIONS:
                raise ProtocolError(f"version {version} of api key {key} is not served here")
            # KAFKA.md fact 2: the body is that of version 0, whatever was asked.
            request = Request(self, api, 0, correlation_id, data, head, size)
            self._reply(request, request.framed(api.handler()(self.node, None, request).encode(0)))
            return None
        position = _HEADER_BYTES if client_id_length < 0 else _HEADER_BYTES + client_id_length
        if version >= api.flexible_from:
            # Nearly always a single zero byte.
            is_empty = position < len(head) and head[position] == 0
            position = position + 1 if is_empty else _skip_tagged_fields(data, position)
        if client_id_length < -1 or position > size:
            raise ProtocolError("a client id is longer than its frame")
        return Request(self, api, version, correlation_id, data, head, position)

    def _handle_message(self, api: Api, request: Request) -> Sequence[Part] | None:
        # Bytes behind the message are ignored, as Kafka does: librdkafka appends some to Metadata for all topics.
        message = request_class(api.key).read(Reader(request.body), request.version)
        result = api.handler()(self.node, message, request)
        if result is None:
            return PARKED
        if isinstance(result, Coroutine):
            self.node.spawn(result, partial(self._finish, request))
            return PARKED
        return request.framed(result.encode(request.version))

    def _finish(self, request: Request, handler: "Task[Any]") -> None:
        """A handler that had to wait has ended: answer for it."""
        if handler.cancelled():
            return
        try:
            request.answer(request.framed(handler.result().encode(request.version)))
        except (ApiError, StorageError) as error:  # the disk failed: nobody can tell what became of the request
            log.warning("closed %s: %s", self.connection.peer, error)
            self.connection.close()
        except Exception:
            self.fail()

    def fail(self) -> None:
        """A bug of ours: say so in the log, tell the client nothing but the end of the connection."""
        self.node.stats.unexpected_errors += 1
        log.exception("closed %s after an unexpected error", self.connection.peer)
        self.connection.close()

    def _reply(self, request: Request, parts: Sequence[Part]) -> None:
        if self._queue:
            request.parts = parts
            self._queue.append(request)
        else:
            self.connection.send(parts)

    # ------------------------------------------------------------------ waiting

    def _park(self, request: Request) -> None:
        request.forget_frame()
        self._queue.append(request)
        if request.api.key == PRODUCE:
            self._parked_bytes += request.size
        if self._must_pause():
            self.connection.pause()

    def _must_pause(self) -> bool:
        queue = self._queue
        if not queue:
            return False
        return (
            queue[-1].api.key != PRODUCE
            or len(queue) >= limits.PARKED_PRODUCES_PER_CONNECTION
            or self._parked_bytes >= limits.PARKED_PRODUCE_BYTES_PER_CONNECTION
        )

    def answered(self, request: Request, parts: Sequence[Part]) -> None:
        """A parked request has its answer: send what is now in order."""
        if self.is_closed:
            for part in parts:
                if isinstance(part, FileSlice):
                    part.release()
            return
        request.parts = parts
        if request.api.key == PRODUCE:
            self._parked_bytes -= request.size
        queue = self._queue
        ready: list[Part] = []
        while queue and (done := queue[0].parts) is not None:
            queue.popleft()
            ready += done
        if ready:
            self.connection.send(ready)
        if self._stopping:
            self.stop()
        elif not self._must_pause():
            self.connection.resume()

    @property
    def may_put_aside(self) -> bool:
        """Whether one more may wait without stopping the reading: what follows it may be on its way already."""
        return len(self._queue) + 1 < limits.PARKED_PRODUCES_PER_CONNECTION

    @property
    def is_idle(self) -> bool:
        """Whether nothing waits for an answer."""
        return not self._queue

    def stop(self) -> None:
        """Read no more; close when everything in flight is answered."""
        self._stopping = True
        self.connection.pause()
        if not self._queue:
            self.connection.finish()

    def closed(self) -> None:
        """The connection is gone: nobody waits any more."""
        self.is_closed = True
        for request in self._queue:
            for part in request.parts or ():
                if isinstance(part, FileSlice):
                    part.release()
        self._queue.clear()
        callbacks, self.closed_callbacks = self.closed_callbacks, {}
        for callback in callbacks:
            callback()
        self.node.session_closed(self)


def _skip_tagged_fields(data: Frame, position: int) -> int:
    """The position after a request header's tagged fields."""
    reader = Reader(data, position)
    reader.read_unknown_tagged_fields()
    return reader.position
