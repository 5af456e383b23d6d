"""Connections to the other nodes, opened when first needed, one per peer and purpose, and given up when they fail.

A purpose ("quorum", "controller", "fsync", "replicated") has its connection to itself, so that a large fetch never
delays a heartbeat or a vote (RELIABILITY, Limits), and their number is bounded by the square of the nodes (C18).
"""

import asyncio
from collections.abc import Callable

from hightide.client.connections import Answer, Connection
from hightide.errors import ApiError, ErrorCode
from hightide.node.ports import Clock, Network
from hightide.wire.message import ApiMessage

Address = tuple[str, int]


class Peers:
    """The other nodes by id. `address` tells where one listens now; None while nobody knows."""

    def __init__(
        self, network: Network, clock: Clock, node_id: int, address: Callable[[int], Address | None], timeout: float
    ) -> None:
        self._network = network
        self._clock = clock
        self._client_id = f"node-{node_id}"
        self._address = address
        self._timeout = timeout
        self._connections: dict[tuple[int, str], Connection] = {}
        self._opening: dict[tuple[int, str], asyncio.Lock] = {}

    async def call(
        self, peer: int, purpose: str, request: ApiMessage, answer: type[Answer], *, timeout: float | None = None
    ) -> Answer:
        """Ask a peer; ApiError (NETWORK_EXCEPTION, REQUEST_TIMED_OUT) when it does not answer."""
        connection = await self.connection(peer, purpose)
        return await connection.call(request, answer, timeout=self._timeout if timeout is None else timeout)

    async def connection(self, peer: int, purpose: str) -> Connection:
        """The connection for this purpose, opened anew when the last one failed or leads to an old address."""
        key = (peer, purpose)
        address = self._address(peer)
        if address is None:
            raise ApiError(ErrorCode.NETWORK_EXCEPTION, f"nobody knows where node {peer} listens")
        async with self._opening.setdefault(key, asyncio.Lock()):
            known = self._connections.get(key)
            if known is not None and known.closed_for is None:
                if known.address == f"{address[0]}:{address[1]}":
                    return known
                known.close()
            opened = await Connection.open(
                self._network, self._clock, *address, client_id=self._client_id, timeout=self._timeout
            )
            self._connections[key] = opened
            return opened

    def close(self) -> None:
        """Drop them all."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()
