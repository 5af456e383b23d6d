"""Brokers come, go and come back (R8).

A broker's epoch is the offset of the record that registered it. A new incarnation is registered fenced, and in the same
batch every partition that the old one led gets a new leader epoch: whatever the former life still does is refused.
"""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.decision import Decision, View
from hightide.metadata.elections import elect
from hightide.metadata.entities import RESERVED_DIRECTORIES, Broker, Endpoint, Feature
from hightide.types import NO_BROKER, PartitionKey, format_uuid
from hightide.wire.message import LogRecord
from hightide.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from hightide.wire.messages.metadata_log import BrokerRegistrationChangeRecord

FENCE, UNFENCE = 1, -1


class Elections(NamedTuple):
    """What fencing or unfencing a broker did to partitions; `possible_losses` belongs in the log for people (R7)."""

    possible_losses: tuple[PartitionKey, ...] = ()


def register_broker(
    view: View, request: BrokerRegistrationRequest, next_offset: int, *, session_active: bool = False
) -> Decision[BrokerRegistrationResponse]:
    """Registers one life of a broker; `next_offset` is where the first record of this decision will be.

    `session_active` says that the former incarnation still sends heartbeats: then it is another process with the same
    id, and the newcomer is refused.
    """
    try:
        return _register(view, request, next_offset, session_active)
    except ApiError as error:
        return Decision([], BrokerRegistrationResponse(error_code=error.code))


def fence_broker(view: View, broker_id: int) -> Decision[Elections]:
    """Takes a broker's roles away. Fencing it again changes nothing (C21)."""
    broker = view.image.brokers.get(broker_id)
    if broker is None or broker.fenced:
        return Decision([], Elections())
    records, elections = _elections(view, view.image.index.hosted_by(broker_id), _live_without(view, broker_id))
    return Decision([*records, _change(broker, FENCE)], elections)


def unfence_broker(view: View, broker_id: int, broker_epoch: int) -> Decision[Elections]:
    """Lets a broker take roles: it leads what waited for it. ApiError STALE_BROKER_EPOCH for a former life."""
    broker = view.broker_with_epoch(broker_id, broker_epoch)
    if not broker.fenced:
        return Decision([], Elections())
    hosted = view.image.index.hosted_by(broker_id)
    waiting = [key for key in view.image.index.led_by(NO_BROKER) if key in hosted]
    others = _live_without(view, broker_id)
    records, elections = _elections(view, waiting, lambda replica: replica == broker_id or others(replica))
    return Decision([_change(broker, UNFENCE), *records], elections)


def _register(
    view: View, request: BrokerRegistrationRequest, next_offset: int, session_active: bool
) -> Decision[BrokerRegistrationResponse]:
    former = view.image.brokers.get(request.broker_id)
    same_life = former is not None and former.incarnation_id == request.incarnation_id
    if former is not None and not same_life and session_active:
        what = f"another broker with id {request.broker_id} is alive"
        raise ApiError(ErrorCode.DUPLICATE_BROKER_REGISTRATION, what)
    _check_directories(view, request)
    records: list[LogRecord] = []
    keeps_roles = same_life or not view.rules.r8_new_epoch_every_start
    epoch = former.epoch if former is not None and same_life else next_offset
    if former is not None and not keeps_roles:
        hosted = view.image.index.hosted_by(request.broker_id)
        records, _ = _elections(view, hosted, _live_without(view, request.broker_id))
        epoch = next_offset + len(records)
    broker = Broker(
        request.broker_id,
        epoch,
        request.incarnation_id,
        tuple(Endpoint(e.name, e.host, e.port, e.security_protocol) for e in request.listeners),
        tuple(Feature(f.name, f.min_supported_version, f.max_supported_version) for f in request.features),
        request.rack,
        tuple(request.log_dirs),
        fenced=former.fenced if former is not None and keeps_roles else True,
    )
    return Decision([*records, broker.to_record()], BrokerRegistrationResponse(broker_epoch=epoch))


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


def _elections(
    view: View, keys: Iterable[PartitionKey], live: Callable[[int], bool]
) -> tuple[list[LogRecord], Elections]:
    records: list[LogRecord] = []
    losses = []
    for key in keys:
        topic = view.image.topics[key.topic_id]
        partition = topic.partitions[key.partition]
        minimum = view.min_in_sync(topic, len(partition.replicas))
        outcome = elect(key, partition, live, minimum, unclean_allowed=view.unclean_election_allowed(topic))
        if outcome is not None:
            records.append(outcome[0])
            if outcome[1].possible_loss:
                losses.append(key)
    return records, Elections(tuple(losses))


def _live_without(view: View, broker_id: int) -> Callable[[int], bool]:
    living = {broker.broker_id for broker in view.image.live_brokers()} - {broker_id}
    return living.__contains__


def _change(broker: Broker, fenced: int) -> BrokerRegistrationChangeRecord:
    return BrokerRegistrationChangeRecord(broker_id=broker.broker_id, broker_epoch=broker.epoch, fenced=fenced)
