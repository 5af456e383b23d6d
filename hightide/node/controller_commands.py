"""What the active controller is asked, by brokers and by clients: message in, reply out once its records are committed.

A heartbeat is answered at once, with the age of what the controller knows of its majority, so that a lease never rests
on a controller that was replaced (R16). Everything else waits for its commit (R24). On any other node: NOT_CONTROLLER.
"""

from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.quorum_description import describe_quorum
from hightide.node.quorum_facts import quorum_facts
from hightide.replication.quorum_progress import NEVER
from hightide.wire.message import ApiMessage
from hightide.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse

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
    reply = await node.metadata.propose(lambda controller: controller.create_topics(message, new_id))
    if not message.validate_only:
        await _wait_until_ready(node, message, reply)
    return reply


async def _wait_until_ready(node: "Node", message: CreateTopicsRequest, reply: CreateTopicsResponse) -> None:
    """C9, C10: wait for the new replicas as `hightide.create.wait` says; a topic that is not ready in time says why."""
    metadata, clock = node.metadata, node.clock
    deadline = clock.now() + message.timeout_ms / 1000
    created = {result.topic_id: result for result in reply.topics if not result.error_code}
    while created and (controller := metadata.controller) is not None:
        awaited = controller.awaited(created, controller.settings.create_wait)
        left = deadline - clock.now()
        if awaited and left > 0:
            await metadata.progressed(metadata.high_watermark, left)
            continue
        for replica in awaited:
            result = created[replica.key.topic_id]
            result.error_code = ErrorCode.REQUEST_TIMED_OUT
            result.error_message = f"The topic was created, but is not ready in time: {replica}"
        return


async def _delete_topics(node: "Node", message: Any, version: int) -> ApiMessage:
    return await node.metadata.propose(lambda controller: controller.delete_topics(message, version))


async def _register(node: "Node", message: Any, _version: int) -> ApiMessage:
    metadata, now = node.metadata, node.clock.now()
    return await metadata.propose(lambda controller: controller.register_broker(message, metadata.log.end, now=now))


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
    metadata.wake()  # whoever waits for a replica to be ready looks again
    return decision.reply


async def _describe_quorum(node: "Node", message: Any, version: int) -> ApiMessage:
    return describe_quorum(message, quorum_facts(node), version)


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
    55: _describe_quorum,
    56: _plain("alter_partition"),
    62: _register,
    63: _heartbeat,
    64: _plain("unregister_broker"),
    67: _plain("allocate_producer_ids"),
}
