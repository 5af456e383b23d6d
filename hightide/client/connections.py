"""One connection to a broker: requests go out at once, bounded in number, and answers are matched by correlation id.

Versions are negotiated once, when the connection opens. Every request has a time-out; the connection of a request that
timed out is closed, since whatever follows it would wait behind it. All failures are `ApiError`s: NETWORK_EXCEPTION for
a lost connection, REQUEST_TIMED_OUT, UNSUPPORTED_VERSION when the two sides share none.
"""

import asyncio
from typing import TypeVar

from hightide.client.answers import code_of
from hightide.client.ports import Bytes, Clock, Network, Transport
from hightide.errors import ApiError, ErrorCode, ProtocolError
from hightide.limits import CLIENT_REQUESTS_IN_FLIGHT_MAX
from hightide.wire.framing import Frame
from hightide.wire.headers import RequestHeader, read_response_header
from hightide.wire.message import ApiMessage
from hightide.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from hightide.wire.primitives import Reader
from hightide.wire.versions import API_NAMES, VALID_VERSIONS

_LENGTH_BYTES = 4
_SOFTWARE_NAME = "hightide-client"


Answer = TypeVar("Answer", bound=ApiMessage)


class Connection:
    """An open connection that knows which versions its broker speaks. Made by `Connection.open`."""

    def __init__(self, address: str, clock: Clock, client_id: str, timeout: float) -> None:
        self.address = address
        self.closed_for: ApiError | None = None
        self._clock = clock
        self._client_id = client_id
        self._timeout = timeout
        self._transport: Transport | None = None
        self._versions: dict[int, tuple[int, int]] = {}
        self._waiting: dict[int, asyncio.Future[bytes]] = {}
        self._correlation_id = 0
        self._slots = asyncio.Semaphore(CLIENT_REQUESTS_IN_FLIGHT_MAX)

    @classmethod
    async def open(
        cls, network: Network, clock: Clock, host: str, port: int, *, client_id: str, timeout: float
    ) -> "Connection":
        """Connect and negotiate versions; NETWORK_EXCEPTION when nobody answers there."""
        connection = cls(f"{host}:{port}", clock, client_id, timeout)
        connecting = asyncio.ensure_future(network.connect(host, port, lambda _: _Inbox(connection)))
        timer = clock.call_later(timeout, connecting.cancel)
        try:
            await asyncio.wait({connecting})
        finally:
            timer.cancel()
            connecting.cancel()
        if connecting.cancelled():
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"{connection.address} does not answer")
        try:
            connection._transport = connecting.result()
        except OSError as error:
            refused = isinstance(error, ConnectionRefusedError)
            reason = "connection refused" if refused else error.strerror or str(error)
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"{connection.address}: {reason}") from error
        await connection._negotiate()
        return connection

    def version_of(self, api_key: int, newest: int | None = None) -> int:
        """The newest version that both sides speak, `newest` at most."""
        ours, theirs = VALID_VERSIONS[api_key], self._versions.get(api_key, (0, -1))
        version = min(ours[1], theirs[1], ours[1] if newest is None else newest)
        if version < max(ours[0], theirs[0]):
            what = f"{self.address} does not speak a version of {API_NAMES[api_key]} that this client knows"
            raise ApiError(ErrorCode.UNSUPPORTED_VERSION, what)
        return version

    async def call(
        self, request: ApiMessage, answer: type[Answer], *, version: int | None = None, timeout: float | None = None
    ) -> Answer:
        """Send a request and wait for its answer."""
        chosen = self.version_of(request.api_key) if version is None else version
        async with self._slots:
            frame = await self._exchange(request, chosen, self._timeout if timeout is None else timeout)
        return self._decode(frame, request.api_key, answer, chosen)

    def tell(self, request: ApiMessage) -> None:
        """Send a request that has no answer (produce with acks=0)."""
        self._send(request, self.version_of(request.api_key))

    def close(self) -> None:
        """Drop the connection; whoever waits for an answer gets NETWORK_EXCEPTION."""
        self.fail(ApiError(ErrorCode.NETWORK_EXCEPTION, f"the connection to {self.address} was closed"))

    def fail(self, error: ApiError) -> None:
        """The connection is of no more use, for this reason. Idempotent: the first reason stays."""
        if self.closed_for is None:
            self.closed_for = error
            waiting, self._waiting = self._waiting, {}
            for future in waiting.values():
                if not future.done():
                    future.set_exception(error)
        if self._transport is not None:
            self._transport.close()

    def received(self, frame: bytes) -> None:
        """One answer has arrived."""
        future = self._waiting.pop(int.from_bytes(frame[:4], "big", signed=True), None)
        if future is not None and not future.done():
            future.set_result(frame)

    async def _negotiate(self) -> None:
        request = ApiVersionsRequest(client_software_name=_SOFTWARE_NAME, client_software_version="1")
        version = VALID_VERSIONS[request.api_key][1]
        async with self._slots:
            frame = await self._exchange(request, version, self._timeout)
            if int.from_bytes(frame[4:6], "big") == ErrorCode.UNSUPPORTED_VERSION:  # an older broker answers in v0
                version = 0
                frame = await self._exchange(request, version, self._timeout)
        response = self._decode(frame, request.api_key, ApiVersionsResponse, version)
        if response.error_code:
            raise ApiError(code_of(response.error_code), f"{self.address} refused to tell its versions")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}

    async def _exchange(self, request: ApiMessage, version: int, timeout: float) -> bytes:
        correlation_id = self._send(request, version)
        future: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting[correlation_id] = future
        timer = self._clock.call_later(timeout, self._timed_out, request.api_key)
        try:
            return await future
        finally:
            timer.cancel()

    def _timed_out(self, api_key: int) -> None:
        what = f"{self.address} did not answer {API_NAMES[api_key]} in time"
        self.fail(ApiError(ErrorCode.REQUEST_TIMED_OUT, what))

    def _send(self, request: ApiMessage, version: int) -> int:
        if self.closed_for is not None:
            raise self.closed_for
        assert self._transport is not None
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        out = bytearray(_LENGTH_BYTES)
        RequestHeader(request.api_key, version, self._correlation_id, self._client_id).write(out)
        request.write(out, version)
        out[:_LENGTH_BYTES] = (len(out) - _LENGTH_BYTES).to_bytes(_LENGTH_BYTES, "big")
        self._transport.send([out])
        return self._correlation_id

    def _decode(self, frame: Bytes, api_key: int, answer: type[Answer], version: int) -> Answer:
        reader = Reader(frame)
        try:
            read_response_header(reader, api_key, version)
            return answer.read(reader, version)
        except ProtocolError as error:
            self.fail(ApiError(ErrorCode.NETWORK_EXCEPTION, f"{self.address} sent what is no {API_NAMES[api_key]}"))
            raise ProtocolError(f"{self.address} sent what is no {API_NAMES[api_key]} answer: {error}") from error


class _Inbox:
    """`ports.FrameReceiver` of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def frame(self, data: Frame) -> None:
        self._connection.received(bytes(data))

    def closed(self) -> None:
        lost = f"the connection to {self._connection.address} was lost"
        self._connection.fail(ApiError(ErrorCode.NETWORK_EXCEPTION, lost))
