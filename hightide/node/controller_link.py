"""The way to the active controller, wherever it is: in this process, in another, or being elected just now.

Commands of brokers and the admin requests of clients go this way, so that a client may ask any broker (Kafka forwards
them too). A command is tried again while nobody leads or the one who led is gone, until its time is up; what a lost
connection left undecided may then be done twice, and the controller answers the second as Kafka's does.
"""

from typing import TYPE_CHECKING, Any, cast

from hightide.client.connections import Answer
from hightide.errors import ApiError, ErrorCode
from hightide.node import controller_commands
from hightide.wire.message import ApiMessage
from hightide.wire.versions import VALID_VERSIONS

if TYPE_CHECKING:
    from hightide.node.node import Node

# A connection answers in order, and creating a topic waits for heartbeats: what is urgent has a connection to itself.
PURPOSES = {56: "in-sync changes", 62: "heartbeats", 63: "heartbeats"}
FORWARDED = "forwarded"
RETRY_SECONDS = 0.05
TIMEOUT_SECONDS = 30.0  # Kafka's request.timeout.ms
_TRANSIENT = {
    ErrorCode.NOT_CONTROLLER,
    ErrorCode.NETWORK_EXCEPTION,
    ErrorCode.REQUEST_TIMED_OUT,
    ErrorCode.UNSUPPORTED_VERSION,
}


class ControllerLink:
    """Finds the active controller and asks it."""

    def __init__(self, node: "Node") -> None:
        self._node = node

    async def call(
        self,
        message: ApiMessage,
        answer: type[Answer],
        *,
        version: int | None = None,
        timeout: float = TIMEOUT_SECONDS,
    ) -> Answer:
        """The controller's answer; ApiError when there was none in time."""
        node = self._node
        deadline = node.clock.now() + timeout
        chosen = VALID_VERSIONS[message.api_key][1] if version is None else version
        while True:
            try:
                reply = await self._try(message, answer, chosen, deadline - node.clock.now())
                if getattr(reply, "error_code", 0) != ErrorCode.NOT_CONTROLLER:
                    return reply
                error = ApiError(ErrorCode.NOT_CONTROLLER)
            except ApiError as caught:
                if caught.code not in _TRANSIENT:
                    raise
                error = caught
            if node.clock.now() >= deadline or node.is_stopping:
                raise error
            await node.metadata.quorum.leader_changed(RETRY_SECONDS)

    async def _try(self, message: ApiMessage, answer: type[Answer], version: int, left: float) -> Answer:
        node = self._node
        leader = node.metadata.quorum.leader
        if leader < 0:
            raise ApiError(ErrorCode.NOT_CONTROLLER, "no controller is known")
        if leader == node.settings.node_id:
            reply: Any = await controller_commands.run(node, message, version)
            return cast(Answer, reply)
        connection = await node.controller_peers.connection(leader, PURPOSES.get(message.api_key, FORWARDED))
        if message.api_key in PURPOSES:  # answered at once, or by a machine that is off and will never say so
            left = min(left, node.settings.broker_session_timeout_ms / 1000)
        return await connection.call(message, answer, version=version, timeout=max(0.1, left))
