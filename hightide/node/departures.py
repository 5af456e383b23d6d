"""Brokers that died a moment ago, which clients are told of a little longer.

A Metadata answer that names a new leader and lists its predecessor no more makes librdkafka (2.16) take the partition
from a broker that it is just forgetting: the records go nowhere until it asks again a second later. Told of the move
first and of the death later it sends at once. Who asks a dead broker meanwhile is refused the connection, as in the
seconds before anybody knew. One that stops cleanly is no longer listed, as in Kafka: its leaders moved before it went.
"""

from hightide.limits import DEPARTED_BROKER_LISTED_SECONDS
from hightide.metadata.entities import Broker
from hightide.metadata.image import Image
from hightide.node.ports import Clock


class Departures:
    """When each broker was found dead. Invariant: whoever is live in the newest image is not in `_left`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._live: set[int] = set()
        self._left: dict[int, float] = {}

    def brokers_changed(self, image: Image) -> None:
        """A newer image is committed; at most as many are remembered as are registered."""
        live = {broker.broker_id for broker in image.live_brokers()}
        now = self._clock.now()
        left = dict.fromkeys(self._live - live, now) | self._left
        self._left = {
            broker_id: since
            for broker_id, since in left.items()
            if broker_id not in live
            and (broker := image.brokers.get(broker_id)) is not None
            and not broker.in_controlled_shutdown
        }
        self._live = live

    def listed(self, image: Image) -> list[Broker]:
        """Whom clients are told of, by id: the live ones and those that died a moment ago."""
        if not self._left:
            return image.live_brokers()
        earliest = self._clock.now() - DEPARTED_BROKER_LISTED_SECONDS
        self._left = {broker_id: since for broker_id, since in self._left.items() if since > earliest}
        return [broker for _, broker in sorted(image.brokers.items()) if broker.live or broker.broker_id in self._left]
