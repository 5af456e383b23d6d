"""Brokers come, go and come back (R8).

A broker's epoch is the offset of the record that registered it. A new incarnation is registered fenced, and in the same
batch every partition that the old one led gets a new leader epoch: whatever the former life still does is refused. In
that batch too, replicas that lost records, or may have, leave the in-sync and the eligible set: they are out before the
broker can be unfenced.

| what the broker tells                               | mode                       | the replica                     |
|-----------------------------------------------------|----------------------------|---------------------------------|
| another directory id; an older stored epoch;        | every                      | leaves, never returns by itself |
| a log end below the checkpointed high watermark     |                            |                                 |
| corrupt below what was synced (quarantined)         | every                      | the same, unless it is the only |
| a doubtful tail                                     | every                      | leaves, one of the last known   |
| an unclean stop                                     | replicated, or not yet all | leaves, one of the last known   |
|                                                     | synced after a switch      |                                 |
"""

from collections.abc import Iterable

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.decision import Decision, Plan, View
from hightide.metadata.elections import Removal
from hightide.metadata.entities import (
    LOST_DIRECTORY,
    RESERVED_DIRECTORIES,
    UNASSIGNED_DIRECTORY,
    Broker,
    Endpoint,
    Feature,
    Partition,
    Topic,
)
from hightide.metadata.replica_states import ReplicaState, state_of
from hightide.metadata.rounds import Elections, Round
from hightide.types import NO_BROKER, PartitionKey, format_uuid
from hightide.wire.message import LogRecord
from hightide.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from hightide.wire.messages.metadata_log import BrokerRegistrationChangeRecord, UnregisterBrokerRecord
from hightide.wire.messages.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse

FENCE, UNFENCE = 1, -1


def register_broker(
    view: View,
    request: BrokerRegistrationRequest,
    next_offset: int,
    *,
    session_active: bool = False,
    cluster_id: str | None = None,
) -> Decision[BrokerRegistrationResponse]:
    """Registers one life of a broker; `next_offset` is where the first record of this decision will be.

    `session_active` says that the former incarnation still sends heartbeats. With another directory it is then another
    process with the same id, and the newcomer is refused; with the same one it is a quick restart.
    """
    try:
        if cluster_id is not None and request.cluster_id != cluster_id:
            raise ApiError(ErrorCode.INCONSISTENT_CLUSTER_ID, f"this cluster is {cluster_id}, not {request.cluster_id}")
        return _register(view, request, next_offset, session_active)
    except ApiError as error:
        return Decision([], BrokerRegistrationResponse(error_code=error.code))


def told_log_ends(view: View, request: BrokerRegistrationRequest) -> dict[PartitionKey, tuple[int, int]]:
    """Where logs of partitions without a leader end, as a registration tells; others move on meanwhile."""
    waiting = view.image.index.led_by(NO_BROKER)
    told = ((PartitionKey(r.topic_id, r.partition_id), r) for r in request.affected_replicas)
    return {key: (r.last_epoch, r.end_offset) for key, r in told if key in waiting and r.end_offset >= 0}


def fence_brokers(view: View, broker_ids: Iterable[int]) -> Decision[Elections]:
    """Takes the roles of brokers away, all at once. Fencing one again changes nothing (C21)."""
    brokers = [
        view.image.brokers[i] for i in broker_ids if i in view.image.brokers and not view.image.brokers[i].fenced
    ]
    fenced = [broker.broker_id for broker in brokers]
    keys = dict.fromkeys(key for broker_id in fenced for key in view.image.index.hosted_by(broker_id))
    round_ = Round(view, without=fenced).elect_all(keys)
    return Decision([*round_.records, *(change(broker, FENCE) for broker in brokers)], round_.outcome)


def unfence_broker(view: View, broker_id: int, broker_epoch: int) -> Decision[Elections]:
    """Lets a broker take roles: it leads what waited for it. ApiError STALE_BROKER_EPOCH for a former life."""
    broker = view.broker_with_epoch(broker_id, broker_epoch)
    if not broker.fenced or broker.in_controlled_shutdown:  # a life that began to stop takes no role again
        return Decision([], Elections())
    hosted = view.image.index.hosted_by(broker_id)
    waiting = [key for key in view.image.index.led_by(NO_BROKER) if key in hosted]
    round_ = Round(view, including=[broker_id]).elect_all(waiting)
    return Decision([change(broker, UNFENCE), *round_.records], round_.outcome)


def unregister_broker(view: View, request: UnregisterBrokerRequest) -> Decision[UnregisterBrokerResponse]:
    """Forgets a broker. If it ever comes back nobody knows what it has: its replicas are in doubt."""
    broker = view.image.brokers.get(request.broker_id)
    if broker is None:
        what = f"Broker ID {request.broker_id} is not currently registered"
        return Decision([], UnregisterBrokerResponse(error_code=ErrorCode.BROKER_ID_NOT_REGISTERED, error_message=what))
    round_ = Round(view, without=[broker.broker_id])
    for key in view.image.index.hosted_by(broker.broker_id):
        round_.elect(key, {broker.broker_id: Removal.DOUBTED})
    record = UnregisterBrokerRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch)
    return Decision([*round_.records, record], UnregisterBrokerResponse(error_message=None))


def change(broker: Broker, fenced: int = 0, *, shutting_down: bool = False) -> BrokerRegistrationChangeRecord:
    """The record that changes a registration."""
    return BrokerRegistrationChangeRecord(
        broker_id=broker.broker_id,
        broker_epoch=broker.epoch,
        fenced=fenced,
        in_controlled_shutdown=int(shutting_down),
    )


def _register(
    view: View, request: BrokerRegistrationRequest, next_offset: int, session_active: bool
) -> Decision[BrokerRegistrationResponse]:
    former = view.image.brokers.get(request.broker_id)
    _check_directories(view, request)
    if former is None:
        return _registered(request, next_offset, [])
    if former.incarnation_id == request.incarnation_id:
        again = _broker(request, former.epoch)._replace(
            fenced=former.fenced,
            in_controlled_shutdown=former.in_controlled_shutdown,
            unfenced_epoch=former.unfenced_epoch,
        )
        records: list[LogRecord] = [] if again == former else [again.to_record()]
        return Decision(records, BrokerRegistrationResponse(broker_epoch=former.epoch))
    if session_active and not set(former.directories).intersection(request.log_dirs):
        what = f"another broker with id {request.broker_id} is alive"
        raise ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, what)
    if not view.rules.r8_new_epoch_every_start:
        broker = _broker(request, next_offset)._replace(fenced=former.fenced, unfenced_epoch=former.unfenced_epoch)
        return Decision([broker.to_record()], BrokerRegistrationResponse(broker_epoch=next_offset))
    return _registered(request, next_offset, _former_life_ends(view, request, former), former.unfenced_epoch)


def _registered(
    request: BrokerRegistrationRequest, next_offset: int, records: list[LogRecord], unfenced_epoch: int = -1
) -> Decision[BrokerRegistrationResponse]:
    epoch = next_offset + len(records)
    broker = _broker(request, epoch)._replace(unfenced_epoch=unfenced_epoch)
    return Decision([*records, broker.to_record()], BrokerRegistrationResponse(broker_epoch=epoch))


def _broker(request: BrokerRegistrationRequest, epoch: int) -> Broker:
    return Broker(
        request.broker_id,
        epoch,
        request.incarnation_id,
        tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        tuple(Feature(f.name, f.min_supported_version, f.max_supported_version) for f in request.features),
        request.rack,
        tuple(request.log_dirs),
    )


def _former_life_ends(view: View, request: BrokerRegistrationRequest, former: Broker) -> list[LogRecord]:
    """Every partition of the broker is judged without it, and without what it lost."""
    told = {PartitionKey(r.topic_id, r.partition_id): state_of(r.state) for r in request.affected_replicas}
    plan = Plan(view)
    round_ = Round(view, without=[request.broker_id])
    for key in view.image.index.hosted_by(request.broker_id):
        topic = view.image.topics[key.topic_id]
        partition = topic.partitions[key.partition]
        removal = _removal(view, request, former, topic, partition, told.get(key))
        round_.elect(key, {} if removal is None else {request.broker_id: removal})
    plan.add(round_.records)
    for key in plan.view.image.index.hosted_by(request.broker_id):
        record = _found_again(plan.view, request, key, told.get(key))
        plan.records += [] if record is None else [record]
    return plan.records


def _removal(
    view: View,
    request: BrokerRegistrationRequest,
    former: Broker,
    topic: Topic,
    partition: Partition,
    state: ReplicaState | None,
) -> Removal | None:
    """Why the replica of a registering broker loses its place, if it does; see the table above."""
    rules = view.rules
    directory = partition.directory_of(request.broker_id)
    if directory == LOST_DIRECTORY and request.broker_id not in partition.members:
        return None  # it has no place to lose
    if rules.r8_other_directory_is_lost and _is_elsewhere(directory, request.log_dirs, former.directories):
        return Removal.LOST
    if request.previous_broker_epoch < former.unfenced_epoch and rules.r8_older_epoch_is_lost:
        return Removal.LOST
    if state is ReplicaState.BELOW_HIGH_WATERMARK and rules.r8_short_log_is_lost:
        return Removal.LOST
    is_unclean = state is ReplicaState.UNCLEAN or (state is not ReplicaState.INTACT and request.is_unclean)
    is_short = is_unclean and rules.r8_unclean_replicated_leaves and not _survives_unclean_stop(view, topic, partition)
    if state is ReplicaState.QUARANTINED and rules.r17_quarantine_synced_corruption:
        # The only member is kept for what it has; one that lost its newest records besides has no claim to that.
        return Removal.DOUBTED if is_short and partition.members == (request.broker_id,) else Removal.QUARANTINED
    if is_short or (state is ReplicaState.DOUBTFUL and rules.r17_doubtful_replicas_leave):
        return Removal.DOUBTED
    return None


def _is_elsewhere(directory: bytes, directories: list[bytes], former: tuple[bytes, ...]) -> bool:
    """Whether the replica's directory is not among the broker's; one that is not known is among the former ones."""
    if directory in (UNASSIGNED_DIRECTORY, LOST_DIRECTORY):
        return not set(former).intersection(directories)
    return directory not in directories


def _survives_unclean_stop(view: View, topic: Topic, partition: Partition) -> bool:
    is_settled = partition.whole_logs_synced or not view.rules.r23_switch_waits_for_reports
    return view.is_synced_before_acknowledged(topic) and is_settled


def _found_again(
    view: View, request: BrokerRegistrationRequest, key: PartitionKey, state: ReplicaState | None
) -> LogRecord | None:
    """The only member of its partition was quarantined and opened well this time: it may lead again (R17)."""
    partition = view.image.topics[key.topic_id].partitions[key.partition]
    is_kept = request.broker_id in partition.eligible_leader_replicas
    if not is_kept or partition.directory_of(request.broker_id) != LOST_DIRECTORY:
        return None
    if state not in (None, ReplicaState.INTACT, ReplicaState.UNCLEAN):
        return None
    found = partition.with_directory(request.broker_id, _broker(request, 0).directory())
    return partition.change_to(found, *key)


def _check_directories(view: View, request: BrokerRegistrationRequest) -> None:
    directories = request.log_dirs
    problem = None
    if not directories:
        problem = "no directories are named"
    elif len(set(directories)) < len(directories):
        problem = "a directory is named twice"
    elif RESERVED_DIRECTORIES.intersection(directories):
        problem = "a directory id is reserved"
    for other in view.image.brokers.values():
        shared = set(other.directories).intersection(directories)
        if shared and other.broker_id != request.broker_id:
            problem = f"broker {other.broker_id} is registered with directory {format_uuid(shared.pop())}"
    if problem is not None:
        raise ApiError(ErrorCode.INVALID_REGISTRATION, problem)
