"""A controller with a metadata log in memory: every decision goes through the bytes of its records and back."""

from collections.abc import Mapping
from typing import TypeVar

from hightide.errors import ErrorCode
from hightide.metadata.controller import Controller
from hightide.metadata.decision import Decision
from hightide.metadata.entities import Partition, Topic
from hightide.metadata.image import Delta, Image
from hightide.metadata.records import decode_record, encode_record
from hightide.metadata.settings.broker_values import BrokerSettings
from hightide.rules import ALL_ON, Rules
from hightide.wire.messages.broker_registration import BrokerRegistrationRequest, Listener
from hightide.wire.messages.create_topics import (
    CreatableReplicaAssignment,
    CreatableTopic,
    CreatableTopicConfig,
    CreateTopicsRequest,
    CreateTopicsResponse,
)

Reply = TypeVar("Reply")
EPOCH = 1


def directory_of(broker_id: int) -> bytes:
    """The directory id of a broker."""
    return b"directory" + broker_id.to_bytes(7, "big")


class Quorum:
    """The controller, its log, and shorthands for commands."""

    def __init__(self, settings: Mapping[str, str] | None = None, *, rules: Rules = ALL_ON) -> None:
        self.controller = Controller(Image(), BrokerSettings(settings or {}), rules=rules)
        self.log: list[bytes] = []
        self.delta = Delta()
        self._lives = 0
        self._ids = 0

    @property
    def image(self) -> Image:
        """The newest image."""
        return self.controller.image

    def commit(self, decision: Decision[Reply]) -> Reply:
        """Append a decision's records and replay them."""
        if decision.records:
            data = [encode_record(record) for record in decision.records]
            self.log += data
            image, self.delta = self.controller.replay(map(decode_record, data), len(self.log) - 1, EPOCH)
            self.controller.committed(image)
        return decision.reply

    def new_id(self) -> bytes:
        """Ids that count."""
        self._ids += 1
        return b"topic" + self._ids.to_bytes(11, "big")

    def register(self, broker_id: int, *, rack: str | None = None, incarnation: bytes | None = None) -> int:
        """Another life of a broker; its epoch."""
        self._lives += 1
        former = self.image.brokers.get(broker_id)
        request = BrokerRegistrationRequest(
            broker_id=broker_id,
            incarnation_id=incarnation or b"incarnation" + self._lives.to_bytes(5, "big"),
            listeners=[Listener(name="PLAINTEXT", host="h", port=9000 + broker_id)],
            rack=rack,
            log_dirs=[directory_of(broker_id)],
            previous_broker_epoch=former.epoch if former is not None else -1,
        )
        reply = self.commit(self.controller.register_broker(request, len(self.log)))
        assert reply.error_code == ErrorCode.NONE
        return reply.broker_epoch

    def start(self, *broker_ids: int, racks: Mapping[int, str] | None = None) -> None:
        """Register brokers and let them take roles."""
        for broker_id in broker_ids:
            epoch = self.register(broker_id, rack=(racks or {}).get(broker_id))
            self.commit(self.controller.unfence_broker(broker_id, epoch))

    def create(
        self,
        name: str,
        partitions: int = -1,
        factor: int = -1,
        *,
        assignments: Mapping[int, list[int]] | None = None,
        validate_only: bool = False,
        configs: Mapping[str, str | None] | None = None,
    ) -> CreateTopicsResponse:
        """Create one topic."""
        topic = CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=factor,
            assignments=[
                CreatableReplicaAssignment(partition_index=p, broker_ids=b) for p, b in (assignments or {}).items()
            ],
            configs=[CreatableTopicConfig(name=n, value=v) for n, v in (configs or {}).items()],
        )
        return self.create_all([topic], validate_only=validate_only)

    def create_all(self, topics: list[CreatableTopic], *, validate_only: bool = False) -> CreateTopicsResponse:
        """Create topics in one request."""
        request = CreateTopicsRequest(topics=topics, validate_only=validate_only)
        return self.commit(self.controller.create_topics(request, self.new_id))

    def topic(self, name: str) -> Topic:
        """A topic that exists."""
        topic = self.image.topic_named(name)
        assert topic is not None
        return topic

    def partition(self, name: str, number: int = 0) -> Partition:
        """A partition that exists."""
        return self.topic(name).partitions[number]
