"""How consumers moved through partitions: their stints, and every step that did not go to the very next offset.

A client's polls continue each other until it is positioned. A position that changes during a poll (a rebalance inside
the call) frees that poll's records of the partition from judgement: nobody knows which came before it. After a poll
that failed, nobody knows how far the client had got.
"""

from collections import defaultdict, deque
from typing import NamedTuple

from hightide.sim.history.operations import OPEN, Outcome, Poll, Positioned
from hightide.sim.history.recorder import History
from hightide.types import TopicPartition

_NOWHERE = -2  # no offset follows it


class Jump(NamedTuple):
    """A client stood after offset `before` because of `since`, and the next record it got was `after`."""

    partition: TopicPartition
    before: int
    after: int
    since: Poll | Positioned
    poll: Poll


class Stint:
    """A client's way from `start` to the highest offset it read there, which `poll` returned."""

    __slots__ = ("highest", "poll", "start")

    def __init__(self, start: int) -> None:
        self.start = start
        self.highest = -1
        self.poll: Poll | None = None


class _Place:
    """Where a client stands in a partition."""

    __slots__ = ("last", "since", "stint")

    def __init__(self, last: int, since: Poll | Positioned, stint: Stint) -> None:
        self.last = last
        self.since = since
        self.stint = stint


class Reading:
    """All stints by partition, and the jumps in the order in which each client made them."""

    def __init__(self, history: History) -> None:
        self.jumps: list[Jump] = []
        self.stints: defaultdict[TopicPartition, list[Stint]] = defaultdict(list)
        moves: defaultdict[str, deque[Positioned]] = defaultdict(deque)
        for move in history.positions:
            moves[move.client].append(move)
        polls: defaultdict[str, list[Poll]] = defaultdict(list)
        for poll in history.polls:
            polls[poll.client].append(poll)
        for client, made in polls.items():
            self._follow(made, moves[client])

    def _follow(self, polls: list[Poll], moves: deque[Positioned]) -> None:
        places: dict[TopicPartition, _Place] = {}
        lost = False  # a poll failed: a partition that is not in `places` goes on where it can
        for poll in polls:
            free: set[TopicPartition] = set()
            while moves and moves[0].begun < (poll.begun if poll.ended == OPEN else poll.ended):
                move = moves.popleft()
                self._move(places, move)
                if move.begun > poll.begun:
                    free.update(move.positions)
            self._read(poll, places, free, lost)
            if poll.outcome is not Outcome.OK:
                places.clear()
                lost = True

    def _move(self, places: dict[TopicPartition, _Place], move: Positioned) -> None:
        for partition, offset in move.positions.items():
            last = _NOWHERE if offset is None else offset - 1
            places[partition] = _Place(last, move, self._stint(partition, offset or 0))

    def _read(self, poll: Poll, places: dict[TopicPartition, _Place], free: set[TopicPartition], lost: bool) -> None:
        for partition, offset, _ in poll.records:
            place = places.get(partition)
            if place is None:
                stint = self._stint(partition, offset if lost else 0)
                place = places[partition] = _Place(_NOWHERE, poll, stint)
            if partition not in free:
                if offset != place.last + 1 and place.last != _NOWHERE:
                    self.jumps.append(Jump(partition, place.last, offset, place.since, poll))
                if offset > place.stint.highest:
                    place.stint.highest = offset
                    place.stint.poll = poll
            place.last = offset
            place.since = poll

    def _stint(self, partition: TopicPartition, start: int) -> Stint:
        stint = Stint(start)
        self.stints[partition].append(stint)
        return stint
