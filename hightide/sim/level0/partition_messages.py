"""The kinds of messages between brokers and controllers, by the names they have in scripts and timelines."""

from collections.abc import Callable
from typing import Any

from hightide.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from hightide.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse

_DELIVERED_BY = {"fetch": "fetch_asked", "answer": "fetch_answered"}
_CARRIED: dict[str, type] = {
    "alter": AlterPartitionRequest,
    "altered": AlterPartitionResponse,
    "beat": BrokerHeartbeatRequest,
    "beaten": BrokerHeartbeatResponse,
    "register": BrokerRegistrationRequest,
    "registered": BrokerRegistrationResponse,
    "metadata": list,
}
KINDS = (*_DELIVERED_BY, *_CARRIED)


def matcher(
    kind: str, sources: set[int], targets: set[int]
) -> Callable[[int, int, Callable[..., None], tuple[Any, ...]], bool]:
    """What `Hold` asks: whether a message is of this kind, from one of these nodes to one of those."""

    def matches(source: int, target: int, action: Callable[..., None], arguments: tuple[Any, ...]) -> bool:
        if source not in sources or target not in targets:
            return False
        if kind in _DELIVERED_BY:
            return action.__name__ == _DELIVERED_BY[kind]
        return any(isinstance(argument, _CARRIED[kind]) for argument in arguments)

    return matches
