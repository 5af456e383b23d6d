"""What a command leads to: records for the metadata log, and the reply that waits until they are committed."""

from collections.abc import Mapping, Sequence
from typing import Final, Generic, NamedTuple, TypeVar

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.entities import Broker, ResourceType, Topic
from hightide.metadata.image import Image
from hightide.metadata.liveness import Liveness
from hightide.metadata.replica_states import ReplicaFacts
from hightide.metadata.settings.broker_values import BrokerSettings
from hightide.rules import ALL_ON, Rules
from hightide.wire.message import LogRecord

Reply = TypeVar("Reply")
NOTHING_TOLD: Final = Liveness()


class Decision(NamedTuple, Generic[Reply]):
    """Records and reply. A reply without records still waits for everything it read to commit (R24)."""

    records: list[LogRecord]
    reply: Reply


class View(NamedTuple):
    """What commands are judged on: the newest appended image, and the settings that count for the controller (R24)."""

    image: Image
    settings: BrokerSettings
    rules: Rules = ALL_ON
    facts: ReplicaFacts = NOTHING_TOLD

    def after(self, records: Sequence[LogRecord]) -> "View":
        """The view that has these records too: what a later step of the same command is judged on."""
        image, _ = self.image.apply(records, self.image.offset + len(records), self.image.epoch)
        return self._replace(image=image)

    def topic_overrides(self, topic: Topic) -> Mapping[str, str]:
        """What was set for a topic."""
        return self.image.settings_of(ResourceType.TOPIC, topic.name)

    def min_in_sync(self, topic: Topic, replicas: int | None = None) -> int:
        """How many replicas must be in sync before records commit: never more than there are, where that is told."""
        override = self.topic_overrides(topic).get("min.insync.replicas")
        minimum = int(override) if override is not None else self.settings.min_insync_replicas
        return minimum if replicas is None else min(minimum, replicas)

    def unclean_election_allowed(self, topic: Topic) -> bool:
        """Whether the topic prefers a leader to its data."""
        override = self.topic_overrides(topic).get("unclean.leader.election.enable")
        return override.lower() == "true" if override is not None else self.settings.unclean_leader_election_enable

    def is_synced_before_acknowledged(self, topic: Topic) -> bool:
        """Whether an unclean stop loses nothing acknowledged: the durability that the topic has."""
        return (self.topic_overrides(topic).get("hightide.durability") or self.settings.durability) == "fsync"

    def broker_with_epoch(self, broker_id: int, epoch: int) -> Broker:
        """The broker of a request that names its epoch: a former life of a process is refused (R8)."""
        broker = self.image.brokers.get(broker_id)
        if broker is None:
            raise ApiError(ErrorCode.BROKER_ID_NOT_REGISTERED, f"no broker with id {broker_id} is registered")
        if broker.epoch != epoch and self.rules.r8_former_life_is_refused:
            what = f"expected broker epoch {broker.epoch}, but got broker epoch {epoch}"
            raise ApiError(ErrorCode.STALE_BROKER_EPOCH, what)
        return broker


class Plan:
    """A command of several steps: each is judged on what those before it lead to."""

    def __init__(self, view: View) -> None:
        self.view = view
        self.records: list[LogRecord] = []

    def add(self, records: Sequence[LogRecord]) -> None:
        """Take the records of one step in."""
        if records:
            self.records += records
            self.view = self.view.after(records)
