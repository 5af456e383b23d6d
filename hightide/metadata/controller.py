"""The controller: command → (records, reply). Pure; the node appends, waits for the commit, then replies.

R24: commands are judged on the newest *appended* image: of two in flight, never both succeed where only one may.
`replay` moves that image on; `reset` drops an appended tail that will never commit. What brokers and clients see is the
committed image, which the node keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from hightide.metadata.decision import Decision, View
from hightide.metadata.entities import CLUSTER_DEFAULT, ResourceType
from hightide.metadata.image import Delta, Image
from hightide.metadata.placement import Placement, round_robin
from hightide.metadata.settings.broker_values import CLUSTER_ONLY, BrokerSettings
from hightide.rules import ALL_ON, Rules
from hightide.wire.message import LogRecord

if TYPE_CHECKING:  # each command is loaded with its messages when it is first given: a start is lean
    from hightide.metadata.registrations import Elections
    from hightide.metadata.topic_creation import NewId
    from hightide.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
    from hightide.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from hightide.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
    from hightide.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from hightide.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from hightide.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )

FEATURES: Final = {"metadata.version": 30, "eligible.leader.replicas.version": 1}  # 30 is Kafka 4.3-IV0


class Controller:
    """The newest appended image and the commands on it. `settings` are those this process was started with."""

    def __init__(
        self,
        image: Image,
        settings: BrokerSettings,
        placement: Placement = round_robin,
        *,
        rules: Rules = ALL_ON,
    ) -> None:
        self._static = settings
        self._placement = placement
        self._rules = rules
        self.reset(image)
        # Successive topics begin at successive brokers. Kept in memory only: after a failover it need not continue
        # exactly, and a count of topics is a fair place to go on from.
        self._next_start = len(image.topics)

    @property
    def image(self) -> Image:
        """The newest appended image."""
        return self._image

    @property
    def settings(self) -> BrokerSettings:
        """The settings that count for the controller: its static ones under the cluster's dynamic defaults."""
        return self._settings

    def reset(self, image: Image) -> None:
        """Goes back, or on, to another image: the tail that was appended after it is gone."""
        self._image = image
        self._settings = self._static.with_dynamic(image.settings_of(ResourceType.BROKER, CLUSTER_DEFAULT), {})

    def replay(self, records: Iterable[LogRecord], offset: int, epoch: int) -> tuple[Image, Delta]:
        """Takes in a batch that was appended with its last record at `offset`."""
        image, delta = self._image.apply(records, offset, epoch)
        self._image = image
        if any(resource.type is ResourceType.BROKER for resource in delta.resources):
            self.reset(image)
        return image, delta

    def bootstrap(self) -> Decision[None]:
        """What a new cluster begins with: feature levels, and min.insync.replicas if the settings name one (R23)."""
        from hightide.wire.messages.metadata_log import ConfigRecord, FeatureLevelRecord

        if self._image.features:
            return Decision([], None)
        records: list[LogRecord] = [
            FeatureLevelRecord(name=name, feature_level=level) for name, level in FEATURES.items()
        ]
        records += [
            ConfigRecord(
                resource_type=ResourceType.BROKER,
                resource_name=CLUSTER_DEFAULT,
                name=name,
                value=self._static.static[name],
            )
            for name in sorted(CLUSTER_ONLY & self._static.static.keys())
        ]
        return Decision(records, None)

    def create_topics(self, request: CreateTopicsRequest, new_id: NewId) -> Decision[CreateTopicsResponse]:
        """New topics; `new_id` gives random 128-bit ids."""
        from hightide.metadata.topic_creation import Creation

        creation = Creation(self._view(), self._placement, self._next_start, new_id)
        decision = creation.decide(request)
        if not request.validate_only:
            self._next_start = creation.next_start
        return decision

    def delete_topics(self, request: DeleteTopicsRequest, version: int) -> Decision[DeleteTopicsResponse]:
        """Topics, their partitions and their settings go."""
        from hightide.metadata.topic_deletion import delete_topics

        return delete_topics(self._view(), request, version)

    def create_partitions(self, request: CreatePartitionsRequest) -> Decision[CreatePartitionsResponse]:
        """More partitions for existing topics."""
        from hightide.metadata.topic_growth import create_partitions

        return create_partitions(self._view(), self._placement, request)

    def alter_configs(self, request: AlterConfigsRequest) -> Decision[AlterConfigsResponse]:
        """Replace the settings of topics and brokers."""
        from hightide.metadata.configs import alter_configs

        return alter_configs(self._view(), request)

    def incremental_alter_configs(
        self, request: IncrementalAlterConfigsRequest
    ) -> Decision[IncrementalAlterConfigsResponse]:
        """Change settings of topics and brokers one by one."""
        from hightide.metadata.configs import incremental_alter_configs

        return incremental_alter_configs(self._view(), request)

    def allocate_producer_ids(self, request: AllocateProducerIdsRequest) -> Decision[AllocateProducerIdsResponse]:
        """A block of producer ids for a broker."""
        from hightide.metadata.producer_ids import allocate_producer_ids

        return allocate_producer_ids(self._view(), request)

    def register_broker(
        self, request: BrokerRegistrationRequest, next_offset: int, *, session_active: bool = False
    ) -> Decision[BrokerRegistrationResponse]:
        """One life of a broker begins, fenced (R8); `next_offset` is where the decision's first record will be."""
        from hightide.metadata.registrations import register_broker

        return register_broker(self._view(), request, next_offset, session_active=session_active)

    def fence_broker(self, broker_id: int) -> Decision[Elections]:
        """A broker loses its roles."""
        from hightide.metadata.registrations import fence_broker

        return fence_broker(self._view(), broker_id)

    def unfence_broker(self, broker_id: int, broker_epoch: int) -> Decision[Elections]:
        """A broker may take roles."""
        from hightide.metadata.registrations import unfence_broker

        return unfence_broker(self._view(), broker_id, broker_epoch)

    def _view(self) -> View:
        return View(self._image, self._settings, self._rules)
