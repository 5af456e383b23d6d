"""What consumers say they subscribe to: the one look that a coordinator takes into its members' metadata.

Kafka does so too, to know which offsets are in use. A member that can't be understood is taken to use every topic.
"""

from hightide.coordination.classic_group import Group
from hightide.errors import ProtocolError
from hightide.wire.messages.consumer_protocol import ConsumerProtocolSubscription
from hightide.wire.primitives import Reader


class EveryTopic(frozenset[str]):
    """A set that has everything: nothing is known, so nothing may be given up."""

    def __contains__(self, _topic: object) -> bool:
        return True


def subscribed_topics(group: Group) -> frozenset[str]:
    """The topics of all members of a consumer group."""
    topics: set[str] = set()
    for member in group.members.values():
        for metadata in member.protocols.values():
            try:
                topics.update(_topics(metadata))
            except ProtocolError:
                return EveryTopic()
    return frozenset(topics)


def _topics(metadata: bytes) -> list[str]:
    """Topics and user data begin every version; what newer ones add does not matter here."""
    reader = Reader(metadata)
    if reader.read_int16() < 0:
        raise ProtocolError("a subscription of no version")
    return ConsumerProtocolSubscription.read(reader, 0).topics
