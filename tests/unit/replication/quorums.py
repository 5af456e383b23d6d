"""Machines of one voter or observer, brought into a role by hand."""

from typing import TypeVar

from hightide.replication.events import LogAdvanced, TimePassed
from hightide.replication.quorum import QuorumReplica, Role
from hightide.replication.quorum_effects import FetchFrom, PersistVote, QuorumEffect
from hightide.replication.quorum_events import LeaderAnnounced, QuorumEvent, Started, VoteAnswered, VotePersisted
from hightide.replication.voters import VoterSet
from hightide.rules import ALL_ON, Rules
from hightide.sim.level0.raft_log import Batch, SimulatedLog

Kind = TypeVar("Kind")


def log_of(*epochs: int) -> SimulatedLog:
    """One record per epoch named, all of it synced."""
    log = SimulatedLog()
    log.append([Batch(offset, offset + 1, epoch, offset) for offset, epoch in enumerate(epochs)])
    log.synced_end = log.end
    return log


class Voter:
    """Node 1 of voters 1, 2 and 3, on a log; or, as node 9, an observer of them."""

    def __init__(self, *epochs: int, node: int = 1, voters: int = 3, rules: Rules = ALL_ON) -> None:
        self.log = log_of(*epochs)
        members = VoterSet.of(*range(1, voters + 1))
        self.machine = QuorumReplica(node, members, self.log, lambda: 0.5, rules=rules)

    def do(self, event: QuorumEvent) -> list[QuorumEffect]:
        """One event, with a disk that stores votes at once."""
        effects = self.machine.handle(event)
        stored = [effect for effect in effects if isinstance(effect, PersistVote)]
        for effect in stored:
            effects += self.do(VotePersisted(effect.epoch, effect.voted, 0.0))
        return effects

    def role(self) -> Role:
        return self.machine.role

    def start(self, epoch: int = 0, *, voted: int = -1, doubtful: bool = False) -> list[QuorumEffect]:
        return self.do(Started(epoch, voted, 0.0, doubtful))

    def follow(self, leader: int = 2, epoch: int = 5) -> FetchFrom:
        """Started, and told who leads."""
        self.start()
        return only(FetchFrom, self.do(LeaderAnnounced(None, leader, epoch, 1.0)))

    def lead(self) -> None:
        """Started, and elected in the next epoch by voter 2; its own record is written and synced."""
        self.start()
        self.do(TimePassed(1.0))
        epoch = self.machine.epoch
        self.do(VoteAnswered(2, -1, epoch, True, True, 1.0))
        self.do(VoteAnswered(2, -1, epoch + 1, True, False, 1.0))
        self.write(epoch + 1)

    def write(self, epoch: int) -> list[QuorumEffect]:
        """A record, on disk at once."""
        end = self.log.end
        self.log.append([Batch(end, end + 1, epoch, end)])
        self.log.synced_end = self.log.end
        return self.do(LogAdvanced(self.log.end, self.log.synced_end))


def only(kind: type[Kind], effects: list[QuorumEffect]) -> Kind:
    """The one effect of a kind."""
    (found,) = [effect for effect in effects if isinstance(effect, kind)]
    return found


def none(kind: type[object], effects: list[QuorumEffect]) -> bool:
    """Whether there is no effect of a kind."""
    return not any(isinstance(effect, kind) for effect in effects)
