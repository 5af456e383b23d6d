"""Which brokers get the replicas of new partitions.

Round-robin: partition p is led by the broker at position start + p of the list, its followers come after it, so that
brokers [1,2,3] give [1,2,3], [2,3,1], [3,1,2] (T2). Every time the list is through, the distance to the followers grows
by one: counts stay exactly even, and the followers of one broker spread over all others, which is what carries the load
when it fails. With racks, the list alternates between racks and followers take racks that the partition lacks first.

Load-aware: the leader goes where the fewest leaders are, followers where the fewest replicas are, racks that the
partition lacks first; ties go round the list.

Consistent-hash: every partition ranks all brokers by a hash of its own and takes the first, racks that it lacks first
(rendezvous hashing). A broker more or less changes about one n-th of the assignments, and no other (N12).

Placement is a function of its arguments (T12). `start` is one of them: successive topics are given successive ones.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple, Protocol

from hightide.errors import ApiError, ErrorCode


class Candidate(NamedTuple):
    """A live broker that can take replicas, and how many it has already."""

    broker_id: int
    rack: str | None = None
    replicas: int = 0
    leaders: int = 0


class Placement(Protocol):
    """A strategy: the replicas of each partition in `partitions`, the preferred leader first (C7, T17)."""

    def __call__(
        self, candidates: Sequence[Candidate], partitions: range, replication_factor: int, start: int
    ) -> list[list[int]]:
        """INVALID_REPLICATION_FACTOR when there are not enough candidates."""


def round_robin(
    candidates: Sequence[Candidate], partitions: range, replication_factor: int, start: int
) -> list[list[int]]:
    """The strategy described above; `partitions` may begin above 0 and then continues the pattern."""
    check_replication_factor(len(candidates), replication_factor)
    order = alternate_racks(candidates)
    return [_replicas(order, partition, replication_factor, start) for partition in partitions]


def plain_round_robin(
    candidates: Sequence[Candidate], partitions: range, replication_factor: int, start: int
) -> list[list[int]]:
    """Round-robin that does not look at racks."""
    unracked = [candidate._replace(rack=None) for candidate in candidates]
    return round_robin(unracked, partitions, replication_factor, start)


def load_aware(
    candidates: Sequence[Candidate], partitions: range, replication_factor: int, start: int
) -> list[list[int]]:
    """The strategy of few replicas and leaders first; what it places counts for what it places next."""
    check_replication_factor(len(candidates), replication_factor)
    order = alternate_racks(candidates)
    size = len(order)
    leaders = {candidate.broker_id: candidate.leaders for candidate in order}
    replicas = {candidate.broker_id: candidate.replicas for candidate in order}
    placed = []
    for partition in partitions:
        turn = {order[(start + partition + step) % size].broker_id: step for step in range(size)}
        first = min(order, key=lambda c: (leaders[c.broker_id], replicas[c.broker_id], turn[c.broker_id]))
        chosen = [first]
        while len(chosen) < replication_factor:
            racks = {candidate.rack for candidate in chosen if candidate.rack is not None}
            left = [candidate for candidate in order if candidate not in chosen]
            chosen.append(min(left, key=lambda c: (c.rack in racks, replicas[c.broker_id], turn[c.broker_id])))
        leaders[first.broker_id] += 1
        for candidate in chosen:
            replicas[candidate.broker_id] += 1
        placed.append([candidate.broker_id for candidate in chosen])
    return placed


def consistent_hash(
    candidates: Sequence[Candidate], partitions: range, replication_factor: int, start: int
) -> list[list[int]]:
    """The strategy that moves least when brokers come and go; even only on average."""
    check_replication_factor(len(candidates), replication_factor)
    return [_by_rank(candidates, start, partition, replication_factor) for partition in partitions]


def _by_rank(candidates: Sequence[Candidate], start: int, partition: int, replication_factor: int) -> list[int]:
    ranked = sorted(candidates, key=lambda candidate: _rank(start, partition, candidate.broker_id))
    chosen: list[Candidate] = []
    racks: set[str | None] = set()
    for candidate in ranked:  # the best of each rack first
        if candidate.rack is None or candidate.rack not in racks:
            chosen.append(candidate)
            racks.add(candidate.rack)
    chosen += [candidate for candidate in ranked if candidate not in chosen]
    return [candidate.broker_id for candidate in chosen[:replication_factor]]


def _rank(start: int, partition: int, broker_id: int) -> bytes:
    from hashlib import blake2b

    return blake2b(b"%d/%d/%d" % (start, partition, broker_id), digest_size=8).digest()


PLACEMENTS: Final[dict[str, Placement]] = {
    "rack-aware": round_robin,
    "round-robin": plain_round_robin,
    "load-aware": load_aware,
    "consistent-hash": consistent_hash,
}


def placement_named(name: str) -> Placement:
    """The strategy of hightide.placement: one of ours, or `module:function` (T17). ApiError when there is none."""
    if name in PLACEMENTS:
        return PLACEMENTS[name]
    from importlib import import_module

    module, _, function = name.partition(":")
    try:
        found: Placement = getattr(import_module(module), function)
    except (ImportError, AttributeError) as error:
        raise ApiError(ErrorCode.INVALID_CONFIG, f"There is no placement strategy {name}: {error}") from error
    return found


def check_placed(
    placed: list[list[int]], candidates: Sequence[Candidate], partitions: range, replication_factor: int
) -> None:
    """T12: every partition, nobody twice, only live brokers. Also for a strategy that is not ours."""
    known = {candidate.broker_id for candidate in candidates}
    for replicas in placed:
        if len(replicas) != replication_factor or len(set(replicas)) < len(replicas) or not set(replicas) <= known:
            break
    else:
        if len(placed) == len(partitions):
            return
    what = (
        f"The placement strategy gave {placed}, which is not {replication_factor} of the live brokers {sorted(known)}"
    )
    raise ApiError(ErrorCode.INVALID_REPLICA_ASSIGNMENT, f"{what} for each of {len(partitions)} partitions.")


def check_replication_factor(candidates: int, replication_factor: int) -> None:
    """T14: nobody is created with fewer replicas than were asked for."""
    if not candidates:
        what = "All brokers are currently fenced or in controlled shutdown."
    elif replication_factor > candidates:
        what = (
            f"The target replication factor of {replication_factor} cannot be reached "
            f"because only {candidates} broker(s) are live."
        )
    elif replication_factor < 1:
        what = f"Invalid replication factor {replication_factor}: the replication factor must be positive."
    else:
        return
    raise ApiError(
        ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {replication_factor} time(s): {what}"
    )


def alternate_racks(candidates: Sequence[Candidate]) -> list[Candidate]:
    """Brokers by id, taking one of each rack in turn; without racks simply by id."""
    racks: dict[str, list[Candidate]] = {}
    for candidate in sorted(candidates):
        racks.setdefault(candidate.rack or "", []).append(candidate)
    depth = max((len(brokers) for brokers in racks.values()), default=0)
    return [racks[rack][row] for row in range(depth) for rack in sorted(racks) if row < len(racks[rack])]


def _replicas(order: Sequence[Candidate], partition: int, replication_factor: int, start: int) -> list[int]:
    size = len(order)
    first = (start + partition) % size
    shift = partition // size
    others = [order[(first + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
    chosen = [order[first]]
    racks = {order[first].rack}
    for spread in (True, False):  # racks that are still missing first, then any broker
        for candidate in others:
            if len(chosen) == replication_factor:
                break
            if candidate in chosen or (spread and candidate.rack in racks and candidate.rack is not None):
                continue
            chosen.append(candidate)
            racks.add(candidate.rack)
    return [candidate.broker_id for candidate in chosen]
