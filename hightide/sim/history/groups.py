"""K16: two owners, or a committed offset goes back.

Owners: two members of a group had a partition in the same generation, or, where generations are not told, at the same
time. Offsets: a coordinator names a lower one than was acknowledged before it was asked, or takes one: members only go
forward, so a lower commit that succeeds is a former owner's, who should have been fenced.
"""

from collections import defaultdict
from collections.abc import Iterator

from hightide.sim.history.findings import Finding
from hightide.sim.history.known_before import KnownBefore
from hightide.sim.history.operations import Commit, CommittedRead, Outcome, Ownership
from hightide.sim.history.recorder import History
from hightide.types import TopicPartition

Place = tuple[str, TopicPartition]


def check(history: History) -> list[Finding]:
    return [*_two_owners(history), *_back(history)]


def _two_owners(history: History) -> Iterator[Finding]:
    told: defaultdict[tuple[Place, int], list[Ownership]] = defaultdict(list)
    for owned in history.ownerships:
        for partition in owned.partitions:
            told[(owned.group, partition), owned.generation].append(owned)
    for (place, generation), owners in told.items():
        if generation >= 0:
            first = owners[0]
            for other in owners[1:]:
                if other.client != first.client:
                    what = f"{first.client} and {other.client} both own it in generation {generation}"
                    yield Finding("K16", _named(place), what, (first, other))
        else:
            yield from _overlaps(place, owners)


def _overlaps(place: Place, owners: list[Ownership]) -> Iterator[Finding]:
    last: Ownership | None = None
    for owned in owners:  # in the order of their beginnings
        if last is not None and owned.client != last.client and owned.begun < last.ended:
            what = f"{last.client} and {owned.client} own it at the same time"
            yield Finding("K16", _named(place), what, (last, owned))
        if last is None or owned.ended > last.ended:
            last = owned


def _back(history: History) -> Iterator[Finding]:
    kept: defaultdict[Place, list[tuple[int, int, Commit]]] = defaultdict(list)
    for commit in history.commits:
        if commit.outcome is Outcome.OK:
            for partition, offset in commit.offsets.items():
                kept[commit.group, partition].append((commit.ended, offset, commit))
    known = {place: KnownBefore(commits) for place, commits in kept.items()}
    later: list[Commit | CommittedRead] = [each for each in history.commits if each.outcome is Outcome.OK]
    later += history.committed_reads
    for told in later:
        for partition, offset in told.offsets.items():
            place = (told.group, partition)
            before = known[place].at(told.begun) if place in known else None
            if before is not None and offset < before[0]:
                what = f"the committed offset went back from {before[0]} to {offset}"
                yield Finding("K16", _named(place), what, (before[1], told))


def _named(place: Place) -> str:
    group, partition = place
    return f"{group}/{partition}"
