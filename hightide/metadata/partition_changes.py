"""AlterPartition: a leader proposes the in-sync set of its partition, and the controller compares and sets (R5, R6).

The order of the checks is part of the rule. The life of the sender and the leader epoch come first: whoever is not the
leader any more is told so. Then a retry of what was already committed succeeds, and only then is the partition epoch
compared. A set with a member that may not join is refused, but not before the partition epoch has moved on: every
other attempt at the same set that is still under way fails by it, so the refusal is final.
"""

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.decision import Decision, View
from hightide.metadata.elections import eligible_leaders, last_known
from hightide.metadata.entities import LOST_DIRECTORY, Partition, Topic
from hightide.types import PartitionKey
from hightide.wire.message import LogRecord
from hightide.wire.messages.alter_partition import (
    AlterPartitionRequest,
    AlterPartitionRequestPartitionData,
    AlterPartitionResponse,
    AlterPartitionResponsePartitionData,
    AlterPartitionResponseTopicData,
)
from hightide.wire.messages.metadata_log import PartitionChangeRecord

Members = dict[int, int]  # broker id → the epoch of the life that is meant


def alter_partition(
    view: View, request: AlterPartitionRequest, controller_epoch: int
) -> Decision[AlterPartitionResponse]:
    """Records and results, in the order of the request; each partition stands alone."""
    alteration = _Alteration(view, request)
    response = AlterPartitionResponse(controller_epoch=controller_epoch)
    try:
        view.broker_with_epoch(request.broker_id, request.broker_epoch)
    except ApiError as error:
        response.error_code = error.code
        return Decision([], response)
    for wishes in request.topics:
        results = [alteration.judge(wishes.topic_id, wish) for wish in wishes.partitions]
        response.topics.append(AlterPartitionResponseTopicData(topic_id=wishes.topic_id, partitions=results))
    return Decision(alteration.records, response)


class _Alteration:
    """One request. What an earlier part of it changed is seen by a later one."""

    def __init__(self, view: View, request: AlterPartitionRequest) -> None:
        self._view = view
        self._sender = request.broker_id
        self._changed: dict[PartitionKey, Partition] = {}
        self.records: list[LogRecord] = []

    def judge(self, topic_id: bytes, wish: AlterPartitionRequestPartitionData) -> AlterPartitionResponsePartitionData:
        result = AlterPartitionResponsePartitionData(partition_index=wish.partition_index)
        try:
            after = self._decide(topic_id, wish)
        except ApiError as error:
            result.error_code = error.code
            return result
        result.leader_id = after.leader
        result.leader_epoch = after.leader_epoch
        result.isr = list(after.in_sync_replicas)
        result.leader_recovery_state = after.leader_recovery_state
        result.partition_epoch = after.partition_epoch
        return result

    def _decide(self, topic_id: bytes, wish: AlterPartitionRequestPartitionData) -> Partition:
        key = PartitionKey(topic_id, wish.partition_index)
        topic, partition = self._found(key)
        members = _members(wish)
        rules = self._view.rules
        if rules.r6_epochs_before_identity:
            self._check_leader(partition, wish)
        is_retry = set(members) == set(partition.in_sync_replicas) and wish.partition_epoch < partition.partition_epoch
        if is_retry and rules.r6_identical_retry_succeeds:
            return partition
        self._check_leader(partition, wish)
        if wish.partition_epoch < partition.partition_epoch and rules.r6_compare_and_set:
            raise ApiError(ErrorCode.INVALID_UPDATE_VERSION)
        _check_set(partition, wish, members)
        if self._ineligible(key, partition, members):
            if rules.r6_refusal_ends_attempts:
                self._change(key, partition, PartitionChangeRecord(topic_id=topic_id, partition_id=key.partition))
            raise ApiError(ErrorCode.INELIGIBLE_REPLICA)
        after = self._altered(topic, partition, _ordered(partition, members), wish.whole_logs_synced)
        record = partition.change_to(after, *key)
        return partition if record is None else self._change(key, partition, record)

    def _found(self, key: PartitionKey) -> tuple[Topic, Partition]:
        topic = self._view.image.topics.get(key.topic_id)
        if topic is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_ID)
        partition = self._changed.get(key) or self._view.image.partition(*key)
        if partition is None:
            raise ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
        return topic, partition

    def _check_leader(self, partition: Partition, wish: AlterPartitionRequestPartitionData) -> None:
        """A leader that knows more than this controller has a newer one; one that knows less leads no more."""
        if wish.leader_epoch > partition.leader_epoch or wish.partition_epoch > partition.partition_epoch:
            raise ApiError(ErrorCode.NOT_CONTROLLER)
        if wish.leader_epoch < partition.leader_epoch:
            raise ApiError(ErrorCode.FENCED_LEADER_EPOCH)
        if self._sender != partition.leader:
            raise ApiError(ErrorCode.INVALID_REQUEST)

    def _ineligible(self, key: PartitionKey, partition: Partition, members: Members) -> bool:
        """R5. Members that stay were not fenced since: that would have moved the partition epoch."""
        if not self._view.rules.r5_join_live_only:
            return False
        joining = [replica for replica in members if replica not in partition.in_sync_replicas]
        return not all(self._may_join(key, replica, members[replica]) for replica in joining)

    def _may_join(self, key: PartitionKey, replica: int, epoch: int) -> bool:
        broker = self._view.image.brokers.get(replica)
        if broker is None or not broker.live or broker.epoch != epoch:
            return False
        return self._view.facts.unready(replica, key) is None

    def _altered(
        self, topic: Topic, partition: Partition, members: tuple[int, ...], whole_logs_synced: bool
    ) -> Partition:
        view = self._view
        minimum = view.min_in_sync(topic, len(partition.replicas))
        after = partition._replace(
            in_sync_replicas=members,
            eligible_leader_replicas=eligible_leaders(partition, members, minimum, rules=view.rules),
            last_known_eligible=last_known(partition, members, minimum),
        )
        for replica in members:
            directory = partition.directory_of(replica)
            known = view.image.brokers[replica].directories if replica in view.image.brokers else ()
            if directory == LOST_DIRECTORY or (known and directory not in known):
                after = after.with_directory(replica, view.image.brokers[replica].directory())
        if whole_logs_synced and members == partition.in_sync_replicas:
            after = _all_synced(after)
        return after

    def _change(self, key: PartitionKey, partition: Partition, record: PartitionChangeRecord) -> Partition:
        self.records.append(record)
        after = self._changed[key] = partition.merged(record)
        return after


def _all_synced(partition: Partition) -> Partition:
    """R23: the switch to fsync counts from now on. Whoever is eligible besides has reported nothing: it is in doubt.

    The report must end in a newer partition epoch, or the leader could never propose anything else (R6).
    """
    doubted = {*partition.eligible_leader_replicas, *partition.last_known_eligible}
    return partition._replace(
        whole_logs_synced=True,
        eligible_leader_replicas=(),
        last_known_eligible=tuple(replica for replica in partition.replicas if replica in doubted),
    )


def _members(wish: AlterPartitionRequestPartitionData) -> Members:
    """The proposed set. Version 2 names no epochs: nobody can join by it."""
    if wish.new_isr_with_epochs:
        return {member.broker_id: member.broker_epoch for member in wish.new_isr_with_epochs}
    return dict.fromkeys(wish.new_isr, -1)


def _ordered(partition: Partition, members: Members) -> tuple[int, ...]:
    """The set in assignment order, or as it is when it is the committed one."""
    if set(members) == set(partition.in_sync_replicas):
        return partition.in_sync_replicas
    return tuple(replica for replica in partition.replicas if replica in members)


def _check_set(partition: Partition, wish: AlterPartitionRequestPartitionData, members: Members) -> None:
    named = len(wish.new_isr_with_epochs) or len(wish.new_isr)
    if named != len(members) or partition.leader not in members or not set(members) <= set(partition.replicas):
        raise ApiError(ErrorCode.INVALID_REQUEST)
    if wish.leader_recovery_state not in (0, partition.leader_recovery_state):
        raise ApiError(ErrorCode.INVALID_REQUEST)
