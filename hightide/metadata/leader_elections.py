"""ElectLeaders: an operator asks for preferred leaders, or for any leader at the price of records (R7).

| election  | the partition                              | answer                            |
|-----------|--------------------------------------------|-----------------------------------|
| preferred | is led by its first replica                | ELECTION_NOT_NEEDED               |
| preferred | has a first replica not in sync or away    | PREFERRED_LEADER_NOT_AVAILABLE    |
| unclean   | has a leader                               | ELECTION_NOT_NEEDED               |
| unclean   | has no live replica, or one not heard yet  | ELIGIBLE_LEADERS_NOT_AVAILABLE    |

Unclean needs no permission of the topic: whoever asks knows the price. A live replica that has not told yet where its
log ends is waited for, since it may be the longest; its next heartbeat tells.
"""

from collections.abc import Iterable, Iterator
from enum import IntEnum

from hightide.errors import ApiError, ErrorCode
from hightide.metadata.balance import preferred_election
from hightide.metadata.decision import Decision, View
from hightide.metadata.rounds import Round
from hightide.types import PartitionKey
from hightide.wire.message import LogRecord
from hightide.wire.messages.elect_leaders import (
    ElectLeadersRequest,
    ElectLeadersResponse,
    PartitionResult,
    ReplicaElectionResult,
)


class ElectionType(IntEnum):
    """What is asked for, numbered as on the wire."""

    PREFERRED = 0
    UNCLEAN = 1


def elect_leaders(view: View, request: ElectLeadersRequest) -> Decision[ElectLeadersResponse]:
    """Records and results, in the order of the request. Without names all partitions are meant that need it."""
    try:
        kind = ElectionType(request.election_type)
    except ValueError:
        return Decision([], ElectLeadersResponse(error_code=ErrorCode.INVALID_REQUEST))
    campaign = _Campaign(view, kind)
    results = []
    for name, numbers in _wanted(view, request):
        judged = [campaign.judge(name, number) for number in numbers]
        if request.topic_partitions is None:
            judged = [result for result in judged if result.error_code != ErrorCode.ELECTION_NOT_NEEDED]
        if judged or request.topic_partitions is not None:
            results.append(ReplicaElectionResult(topic=name, partition_result=judged))
    return Decision(campaign.records, ElectLeadersResponse(replica_election_results=results))


def _wanted(view: View, request: ElectLeadersRequest) -> Iterator[tuple[str, Iterable[int]]]:
    if request.topic_partitions is None:
        for topic in sorted(view.image.topics.values()):
            yield topic.name, range(len(topic.partitions))
    else:
        for wish in request.topic_partitions:
            yield wish.topic, wish.partitions


class _Campaign:
    """The elections of one request; a partition that is named twice is elected once."""

    def __init__(self, view: View, kind: ElectionType) -> None:
        self._view = view
        self._kind = kind
        self._round = Round(view)
        self._done: dict[PartitionKey, PartitionResult] = {}

    @property
    def records(self) -> list[LogRecord]:
        return self._round.records

    def judge(self, name: str, number: int) -> PartitionResult:
        topic = self._view.image.topic_named(name)
        if topic is None:
            return _result(number, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"No such topic as {name}"))
        if not 0 <= number < len(topic.partitions):
            what = f"No such partition as {name}-{number}"
            return _result(number, ApiError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, what))
        key = PartitionKey(topic.topic_id, number)
        if key not in self._done:
            try:
                self._elect(key)
                self._done[key] = _result(number)
            except ApiError as error:
                self._done[key] = _result(number, error)
        return self._done[key]

    def _elect(self, key: PartitionKey) -> None:
        partition = self._view.image.topics[key.topic_id].partitions[key.partition]
        if self._kind is ElectionType.PREFERRED:
            if partition.leader == partition.replicas[0]:
                raise ApiError(ErrorCode.ELECTION_NOT_NEEDED)
            record = preferred_election(partition, key, self._round)
            if record is None:
                raise ApiError(ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE)
            self._round.records.append(record)
        elif partition.has_leader:
            raise ApiError(ErrorCode.ELECTION_NOT_NEEDED)
        else:
            elected = self._round.elect(key, unclean=True)
            if elected is None or elected.leader < 0:
                raise ApiError(ErrorCode.ELIGIBLE_LEADERS_NOT_AVAILABLE, self._why_nobody(key))

    def _why_nobody(self, key: PartitionKey) -> str:
        partition = self._view.image.topics[key.topic_id].partitions[key.partition]
        told = self._view.facts.log_ends(key)
        silent = [r for r in partition.replicas if self._round.is_willing(key, partition, r) and r not in told]
        if not silent:
            return "No replica of the partition is live."
        return f"Brokers {silent} have not told yet where their logs end; try again."


def _result(number: int, error: ApiError | None = None) -> PartitionResult:
    if error is None:
        return PartitionResult(partition_id=number, error_message=None)
    return PartitionResult(partition_id=number, error_code=error.code, error_message=error.message)
