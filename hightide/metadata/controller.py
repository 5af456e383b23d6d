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
from hightide.metadata.liveness import Liveness
from hightide.metadata.placement import Placement, placement_named
from hightide.metadata.readiness import ReadinessBoard, ReplicaReadiness
from hightide.metadata.settings.broker_values import CLUSTER_ONLY, BrokerSettings
from hightide.rules import ALL_ON, Rules
from hightide.types import NO_EPOCH, PartitionKey
from hightide.wire.message import LogRecord

if TYPE_CHECKING:  # each command is loaded with its messages when it is first given: a start is lean
    from hightide.metadata.rounds import Elections
    from hightide.metadata.ticks import Ticked
    from hightide.metadata.topic_creation import NewId
    from hightide.wire.messages.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
    from hightide.wire.messages.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from hightide.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
    from hightide.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
    from hightide.wire.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from hightide.wire.messages.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from hightide.wire.messages.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from hightide.wire.messages.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from hightide.wire.messages.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from hightide.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

FEATURES: Final = {"metadata.version": 30, "eligible.leader.replicas.version": 1}  # 30 is Kafka 4.3-IV0


class Controller:
    """The newest appended image and the commands on it. `settings` are those this process was started with.

    `placement` is one strategy for all topics, whatever hightide.placement says.
    """

    def __init__(
        self,
        image: Image,
        settings: BrokerSettings,
        placement: Placement | None = None,
        *,
        cluster_id: str | None = None,
        rules: Rules = ALL_ON,
    ) -> None:
        self._static = settings
        self._strategies = placement_named if placement is None else lambda _name: placement
        self._cluster_id = cluster_id
        self._rules = rules
        self._liveness = Liveness()
        self._readiness = ReadinessBoard(self._liveness)
        self._is_active = False
        self._epoch = NO_EPOCH
        self._balanced_at: float | None = None
        self._committed = image
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

    def activated(self, now: float, epoch: int = NO_EPOCH) -> None:
        """This controller leads the quorum: every broker has a whole session from now (R16)."""
        self._is_active, self._epoch = True, epoch
        self._balanced_at = now
        self._readiness.activated(self._image.offset)
        if self._rules.r16_sessions_restart:
            self._liveness.restart(self._image, now)
        else:
            self._liveness.restart(self._image, float("-inf"))

    def deactivated(self) -> None:
        """It does not lead any more: what brokers told it is forgotten. `reset` drops the tail."""
        self._is_active, self._epoch = False, NO_EPOCH
        self._liveness.clear()

    def committed(self, image: Image) -> None:
        """Everything up to this image is committed. Commands are judged on the newest appended one all the same."""
        self._committed = image

    def reset(self, image: Image) -> None:
        """Goes back, or on, to another image: the tail that was appended after it is gone."""
        self._image = self._committed = image
        self._take_settings()

    def _take_settings(self) -> None:
        image = self._image
        self._settings = self._static.with_dynamic(image.settings_of(ResourceType.BROKER, CLUSTER_DEFAULT), {})

    def replay(self, records: Iterable[LogRecord], offset: int, epoch: int) -> tuple[Image, Delta]:
        """Takes in a batch that was appended with its last record at `offset`."""
        before = self._image
        self._image, delta = before.apply(records, offset, epoch)
        image = self._image
        if any(resource.type is ResourceType.BROKER for resource in delta.resources):
            self._take_settings()
        self._liveness.forget_ends(key for key in delta.partitions if _is_led(image, key))
        if self._is_active:
            self._readiness.replayed(before, delta, offset)
        return image, delta

    def bootstrap(self) -> Decision[None]:
        """What a new cluster begins with: feature levels, and what all brokers agree on where this one names it."""
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

        creation = Creation(self._view(), self._strategies, self._next_start, new_id)
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

        return create_partitions(self._view(), self._strategies, request)

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
        self,
        request: BrokerRegistrationRequest,
        next_offset: int,
        *,
        now: float | None = None,
        session_active: bool = False,
    ) -> Decision[BrokerRegistrationResponse]:
        """One life of a broker begins, fenced (R8); `next_offset` is where the decision's first record will be."""
        from hightide.metadata.registrations import register_broker, told_log_ends

        timeout = self._settings.broker_session_timeout_ms / 1000
        if now is not None:
            session_active |= self._liveness.is_active(self._image, request.broker_id, now, timeout)
        decision = register_broker(
            self._view(), request, next_offset, session_active=session_active, cluster_id=self._cluster_id
        )
        if now is not None and not decision.reply.error_code:
            session = self._liveness.of(request.broker_id, decision.reply.broker_epoch, now)
            session.log_ends.update(told_log_ends(self._view().after(decision.records), request))
        return decision

    def unregister_broker(self, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
        """A broker is gone for good."""
        from hightide.metadata.registrations import unregister_broker

        return unregister_broker(self._view(), request)

    def heartbeat(
        self, request: BrokerHeartbeatRequest, now: float, quorum_age: float | None = 0.0
    ) -> Decision[BrokerHeartbeatResponse]:
        """A broker lives. The reply is sent at once, while its records are on their way (R16).

        `quorum_age` is R16's age in seconds; None while no majority is known to follow this controller: no lease then.
        """
        from hightide.metadata.heartbeats import heartbeat

        return heartbeat(self._view(), self._liveness, request, now, quorum_age, self._epoch)

    def tick(self, now: float) -> Decision[Ticked]:
        """Time passed: sessions end, leaders go back to where they are preferred. Asked twice a second or so (C12)."""
        from hightide.metadata.ticks import tick

        self._readiness.forget_old(self._image)
        decision = tick(self._view(), self._liveness, now, self._balanced_at)
        self._balanced_at = decision.reply.balanced_at
        return decision

    def alter_partition(self, request: AlterPartitionRequest) -> Decision[AlterPartitionResponse]:
        """A leader proposes in-sync sets (R5, R6)."""
        from hightide.metadata.partition_changes import alter_partition

        return alter_partition(self._view(), request, self._epoch)

    def elect_leaders(self, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
        """An operator asks for preferred leaders, or for any (R7)."""
        from hightide.metadata.leader_elections import elect_leaders

        return elect_leaders(self._view(), request)

    def awaited(self, topic_ids: Iterable[bytes], wait: str) -> list[ReplicaReadiness]:
        """What the creator of topics still waits for; `wait` is a value of hightide.create.wait (C9)."""
        return self._readiness.awaited(self._image, topic_ids, wait)

    def readiness(self, key: PartitionKey) -> list[ReplicaReadiness]:
        """How far the replicas of a partition are, in assignment order (C8)."""
        partition = self._image.partition(*key)
        return [self._readiness.of(self._image, key, r) for r in (partition.replicas if partition else ())]

    def fence_broker(self, broker_id: int) -> Decision[Elections]:
        """A broker loses its roles."""
        from hightide.metadata.registrations import fence_brokers

        return fence_brokers(self._view(), [broker_id])

    def unfence_broker(self, broker_id: int, broker_epoch: int) -> Decision[Elections]:
        """A broker may take roles."""
        from hightide.metadata.registrations import unfence_broker

        return unfence_broker(self._view(), broker_id, broker_epoch)

    def _view(self) -> View:
        image = self._image if self._rules.r24_judge_appended else self._committed
        return View(image, self._settings, self._rules, self._liveness)


def _is_led(image: Image, key: PartitionKey) -> bool:
    partition = image.partition(*key)
    return partition is not None and partition.has_leader
