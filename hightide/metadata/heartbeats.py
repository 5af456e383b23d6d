"""Heartbeats: a broker says that it lives, how far it replayed, what it wishes and what is wrong with its replicas.

| the broker is  | it wishes           | it becomes                                                            |
|----------------|---------------------|-----------------------------------------------------------------------|
| fenced         | to stop, or did     | fenced, and may stop                                                  |
| fenced         | to be fenced        | fenced                                                                |
| fenced         | nothing             | unfenced, once it has replayed its own registration (R8)              |
| unfenced       | to stop             | stopping if it leads anything, else fenced, and may stop              |
| unfenced       | to be fenced        | fenced                                                                |
| stopping       | whatever            | stopping until all know that it leads nothing, then fenced, may stop  |

The answer leaves at once, not when its records are committed: its age is what the lease is measured by (R16). Nothing
else in it needs the commit, since brokers take their roles from the metadata log only (C11). A fenced broker gets no
lease, and one that is let back in none before it has replayed that it was fenced: it would go on leading what others
lead since.
"""

from enum import Enum

from hightide.errors import ApiError
from hightide.metadata.decision import Decision, Plan, View
from hightide.metadata.elections import Removal
from hightide.metadata.entities import Broker
from hightide.metadata.liveness import Liveness, Session
from hightide.metadata.registrations import FENCE, change, fence_brokers, unfence_broker
from hightide.metadata.replica_states import ReplicaState, Unready, state_of
from hightide.metadata.rounds import Elections, Round
from hightide.metadata.shutdown import begin_shutdown, may_stop
from hightide.types import NO_BROKER, PartitionKey
from hightide.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from hightide.wire.messages.metadata_log import BrokerRegistrationChangeRecord


class Step(Enum):
    """What a heartbeat leads to."""

    STAY = "as it is"
    FENCE = "loses its roles"
    UNFENCE = "may take roles"
    HAND_OVER = "leads nothing more"
    STOP = "fenced, and may stop"


def heartbeat(
    view: View,
    liveness: Liveness,
    request: BrokerHeartbeatRequest,
    now: float,
    quorum_age: float | None,
    controller_epoch: int,
) -> Decision[BrokerHeartbeatResponse]:
    """One heartbeat. `quorum_age`: how old the newest proof is that a majority follows this controller; None: none."""
    response = BrokerHeartbeatResponse(controller_epoch=controller_epoch)
    try:
        broker = view.broker_with_epoch(request.broker_id, request.broker_epoch)
    except ApiError as error:
        response.error_code = error.code
        return Decision([], response)
    session = liveness.of(broker.broker_id, broker.epoch, now)
    _note(session, request, now)
    if broker.fenced:
        session.lease_offset = view.image.offset
    plan = Plan(view)
    _take_directories_offline(plan, broker, request)
    news = _take_out_unready(plan, session, request)
    step = _next_step(plan.view, session, liveness, request)
    _carry_out(plan, step, broker.broker_id)
    _fill_vacancies(plan, broker.broker_id, news)
    after = plan.view.image.brokers[broker.broker_id]
    response.is_caught_up = request.current_metadata_offset >= broker.epoch
    response.is_fenced = after.fenced
    response.should_shut_down = step is Step.STOP
    has_replayed = request.current_metadata_offset >= session.lease_offset or not view.rules.r16_lease_after_replay
    if quorum_age is not None and not after.fenced and has_replayed:
        response.lease_age_ms, response.lease_ms = _lease(plan.view, quorum_age)
    return Decision(plan.records, response)


def _note(session: Session, request: BrokerHeartbeatRequest, now: float) -> None:
    session.contact, session.is_heard = max(session.contact, now), True
    session.metadata_offset = max(session.metadata_offset, request.current_metadata_offset)
    session.applied_offset = max(session.applied_offset, request.applied_metadata_offset)


def _lease(view: View, quorum_age: float) -> tuple[int, int]:
    """Age, rounded up, and length in milliseconds."""
    age_ms = -int(-max(quorum_age, 0.0) * 1000 // 1) if view.rules.r16_lease_ages else 0
    length = (
        view.settings.lease_ms if view.rules.r16_lease_below_session else 2 * view.settings.broker_session_timeout_ms
    )
    return age_ms, length


def _take_directories_offline(plan: Plan, broker: Broker, request: BrokerHeartbeatRequest) -> None:
    """R10: what is in a failed directory leaves the in-sync and the eligible sets, and others lead it."""
    offline = set(request.offline_log_dirs).intersection(broker.directories)
    if not offline or not plan.view.rules.r10_unready_replicas_leave:
        return
    left = [directory for directory in broker.directories if directory not in offline]
    image = plan.view.image
    round_ = Round(plan.view, without=[] if left else [broker.broker_id])
    for key in image.index.hosted_by(broker.broker_id):
        partition = image.topics[key.topic_id].partitions[key.partition]
        if not left or partition.directory_of(broker.broker_id) in offline:
            round_.elect(key, {broker.broker_id: Removal.DOUBTED})
    record = BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, log_dirs=left)
    if left:
        round_.records.append(record)
    elif not broker.fenced:
        round_.records.append(change(broker, FENCE))
    plan.add(round_.records)


def _take_out_unready(plan: Plan, session: Session, request: BrokerHeartbeatRequest) -> list[PartitionKey]:
    """C8, R10, R17: replicas that cannot serve give their places up. The partitions that there is better news of."""
    view = plan.view
    before, session.unready = session.unready, _unready(request)
    if session.unready and view.rules.r10_unready_replicas_leave:
        hosted = view.image.index.hosted_by(request.broker_id)
        round_ = Round(view)
        for key, unready in session.unready.items():
            if key in hosted:
                round_.elect(
                    key,
                    _removal(view, key, request.broker_id, unready),
                    new_epoch=_begins_anew(view, key, unready),
                )
        plan.add(round_.records)
    return [*(key for key in before if key not in session.unready), *_take_log_ends(view, session, request)]


def _fill_vacancies(plan: Plan, broker_id: int, news: list[PartitionKey]) -> None:
    """Partitions that nobody leads may have a leader by what was told. Last, so that nobody who leaves is elected."""
    if not news:
        return
    image = plan.view.image
    hosted, vacant = image.index.hosted_by(broker_id), image.index.led_by(NO_BROKER)
    round_ = Round(plan.view).elect_all(key for key in dict.fromkeys(news) if key in hosted and key in vacant)
    plan.add(round_.records)


def _unready(request: BrokerHeartbeatRequest) -> dict[PartitionKey, Unready]:
    return {
        PartitionKey(replica.topic_id, replica.partition_id): Unready(
            state_of(replica.state), replica.reason, replica.leader_epoch
        )
        for replica in request.unready_replicas
    }


def _begins_anew(view: View, key: PartitionKey, unready: Unready) -> bool:
    """R17: a replica that was found corrupt is fetched again from nothing, in the same life of its broker. Where its
    bad log ended may be on its way to the leader still, or in a proposal, and must not let the empty one be in sync: it
    begins in a leader epoch in which it never fetched. However often it is told, and to however many controllers, one
    find makes one epoch."""
    if unready.state is not ReplicaState.QUARANTINED or not view.rules.r17_refetch_in_a_new_epoch:
        return False
    partition = view.image.topics[key.topic_id].partitions[key.partition]
    return partition.has_leader and partition.leader_epoch <= unready.leader_epoch


def _removal(view: View, key: PartitionKey, broker_id: int, unready: Unready) -> dict[int, Removal]:
    """A log that is merely closed keeps what it has, like that of a fenced broker; nobody is removed twice."""
    partition = view.image.topics[key.topic_id].partitions[key.partition]
    if unready.state is ReplicaState.QUARANTINED:
        return {broker_id: Removal.QUARANTINED}
    is_doubtful = unready.state is ReplicaState.DOUBTFUL and view.rules.r17_doubtful_replicas_leave
    if is_doubtful and broker_id in partition.members:
        return {broker_id: Removal.DOUBTED}
    return {}


def _take_log_ends(view: View, session: Session, request: BrokerHeartbeatRequest) -> list[PartitionKey]:
    """Ends count for a partition without a leader, told since it has none."""
    told = []
    for end in request.log_ends:
        key = PartitionKey(end.topic_id, end.partition_id)
        partition = view.image.partition(*key)
        if partition is not None and not partition.has_leader and end.leader_epoch == partition.leader_epoch:
            session.log_ends[key] = (end.last_epoch, end.end_offset)
            told.append(key)
    return told


def _next_step(view: View, session: Session, liveness: Liveness, request: BrokerHeartbeatRequest) -> Step:
    """The table above."""
    broker = view.image.brokers[request.broker_id]
    if broker.fenced:
        if request.want_shut_down or broker.in_controlled_shutdown:
            return Step.STOP
        has_replayed = request.current_metadata_offset >= broker.epoch or not view.rules.r8_unfence_after_replay
        has_disk = not set(broker.directories) or not set(broker.directories) <= set(request.offline_log_dirs)
        return Step.UNFENCE if has_replayed and has_disk and not request.want_fence else Step.STAY
    if broker.in_controlled_shutdown:
        return Step.STOP if may_stop(view, broker, session, liveness) else Step.STAY
    if request.want_shut_down and not request.want_fence and view.image.index.led_by(broker.broker_id):
        return Step.HAND_OVER
    if request.want_shut_down:
        return Step.STOP
    return Step.FENCE if request.want_fence else Step.STAY


def _carry_out(plan: Plan, step: Step, broker_id: int) -> None:
    broker = plan.view.image.brokers[broker_id]
    decision: Decision[Elections] = Decision([], Elections())
    if step in (Step.FENCE, Step.STOP):
        decision = fence_brokers(plan.view, [broker_id])
    elif step is Step.UNFENCE:
        decision = unfence_broker(plan.view, broker_id, broker.epoch)
    elif step is Step.HAND_OVER:
        decision = begin_shutdown(plan.view, broker)
    plan.add(decision.records)
