"""What the active controller is asked, by brokers and by clients: message in, reply out once its records are committed.

A heartbeat is answered at once, with the age of what the controller knows of its majority, so that a lease never rests
on a controller that was replaced (R16). Everything else waits for its commit (R24). On any other node: NOT_CONTROLLER.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from hightide.errors import ApiError, ErrorCode
from hightide.replication.quorum_progress import NEVER
from hightide.wire.message import ApiMessage

if TYPE_CHECKING:
    from hightide.node.node import Node

Command = Callable[["Node", Any, int], Awaitable[ApiMessage]]


async def run(node: "Node", message: ApiMessage, version: int) -> ApiMessage:
    """Carry out one command here."""
    command = COMMANDS.get(message.api_key)
    if command is None:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"api key {message.api_key} is no command for a controller")
    return await command(node, message, version)


async def _create_topics(node: "Node", message: Any, _version: int) -> ApiMessage:
    new_id = partial(node.entropy.token, 16)
    return await node.metadata.propose(lambda controller: controller.create_topics(message, new_id))


async def _delete_topics(node: "Node", message: Any, version: int) -> ApiMessage:
    return await node.metadata.propose(lambda controller: controller.delete_topics(message, version))


async def _register(node: "Node", message: Any, _version: int) -> ApiMessage:
    metadata = node.metadata
    return await metadata.propose(lambda controller: controller.register_broker(message, metadata.log.end))


async def _heartbeat(node: "Node", message: Any, _version: int) -> ApiMessage:
    metadata, now = node.metadata, node.clock.now()
    controller = metadata.controller
    if controller is None:
        raise ApiError(ErrorCode.NOT_CONTROLLER)
    contact = metadata.quorum.machine.quorum_contact(now)
    age = None if contact == NEVER else max(0.0, now - contact)
    decision = controller.heartbeat(message, now, age)
    if decision.records:
        metadata.append(decision.records)
    return decision.reply


def _plain(name: str) -> Command:
    """A command that the controller has under this name and that needs nothing but the message."""

    async def command(node: "Node", message: Any, _version: int) -> ApiMessage:
        reply: ApiMessage = await node.metadata.propose(lambda controller: getattr(controller, name)(message))
        return reply

    return command


COMMANDS: dict[int, Command] = {
    19: _create_topics,
    20: _delete_topics,
    33: _plain("alter_configs"),
    37: _plain("create_partitions"),
    43: _plain("elect_leaders"),
    44: _plain("incremental_alter_configs"),
    56: _plain("alter_partition"),
    62: _register,
    63: _heartbeat,
    67: _plain("allocate_producer_ids"),
}
