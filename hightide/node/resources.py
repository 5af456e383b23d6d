"""The kinds of things that have settings, numbered as in Kafka, and how they are named."""

from hightide.errors import ApiError, ErrorCode

TOPIC = 2
BROKER = 4


def check_broker_name(name: str, node_id: int) -> None:
    """A broker resource must name this broker; ApiError as Kafka words it."""
    try:
        broker_id = int(name)
    except ValueError:
        raise ApiError(ErrorCode.INVALID_REQUEST, f"Broker id must be an integer, but it is: {name}") from None
    if broker_id != node_id:
        raise ApiError(
            ErrorCode.INVALID_REQUEST, f"Unexpected broker id, expected {node_id} or empty string, but received {name}"
        )
