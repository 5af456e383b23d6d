"""The arithmetic of elections: whose log is good enough, and what the answers of a round add up to.

A record is committed when a majority has it on disk, and nobody leads without a majority whose logs are not newer than
its own; both majorities share a voter, so the leader has every committed record. A voter whose disk lost synced bytes
breaks that argument. It is *doubtful* (R17): it neither stands nor grants, unless every voter has shown its log and the
best of all of them stands, for then whatever any disk still holds is kept.
"""

from typing import NamedTuple

from hightide.replication.voters import VoterSet


class LogPosition(NamedTuple):
    """How much a log holds; the greater tuple is the newer log (Raft 5.4.1)."""

    last_epoch: int
    end: int


class VoteAnswer(NamedTuple):
    """What one voter said in a round."""

    granted: bool
    position: LogPosition
    doubtful: bool
    knows_leader: bool


class Round:
    """The answers to one round of votes or pre-votes. `all_voters`: it is won by everybody's vote only."""

    __slots__ = ("_answers", "_voters", "all_voters", "granted")

    def __init__(self, voters: VoterSet, *, all_voters: bool = False) -> None:
        self._voters = voters
        self._answers: dict[int, VoteAnswer] = {}
        self.all_voters = all_voters
        self.granted: set[int] = set()

    def answered(self, voter: int, answer: VoteAnswer) -> None:
        """The newest answer of a voter counts, but a vote once given stays."""
        self._answers[voter] = answer
        if answer.granted:
            self.granted.add(voter)

    @property
    def is_won(self) -> bool:
        """Enough votes to go on."""
        return len(self.granted) >= (len(self._voters) if self.all_voters else self._voters.majority)

    def is_best_of_all(self, voter: int) -> bool:
        """R17's way out: everybody answered, nobody has a leader, somebody is doubtful, and `voter` holds the most."""
        answers = self._answers
        if len(answers) < len(self._voters) or any(answer.knows_leader for answer in answers.values()):
            return False
        best = max(answers, key=lambda candidate: (answers[candidate].position, -candidate))
        return best == voter and any(answer.doubtful for answer in answers.values())
