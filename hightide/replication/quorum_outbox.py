"""What leaves a replica of an elected quorum, and when: nothing that rests on a vote before the vote is durable (R9).

Whoever promised something in an epoch and forgets the epoch can promise the contrary after a restart. So requests and
answers wait here while epoch or vote differ from what the disk is known to hold; what concerns only the own node goes
out at once.
"""

from hightide.replication.quorum_effects import FetchFrom, PersistVote, QuorumEffect, SendVote


class Outbox:
    """`out`: the effects of the event at hand, a fresh list each time; and those that wait for the disk.

    Invariant: while nothing is unsaved, nothing waits.
    """

    __slots__ = ("_held", "_is_saving", "is_unsaved", "out", "waits")

    def __init__(self, *, waits: bool) -> None:
        self.waits = waits
        self.out: list[QuorumEffect] = []
        self.is_unsaved = False
        self._is_saving = False
        self._held: list[QuorumEffect] = []

    def send(self, effect: QuorumEffect) -> None:
        """Something that others will rely on."""
        (self._held if self.is_unsaved and self.waits else self.out).append(effect)

    def persist(self, epoch: int, voted: int, leader: int) -> None:
        """At the end of an event: ask for what is unsaved to be stored, one at a time."""
        if self.is_unsaved and not self._is_saving:
            self._is_saving = True
            self.out.append(PersistVote(epoch, voted, leader))

    def persisted(self, *, is_newest: bool) -> None:
        """The disk has what was asked for; if that is still how things are, everything may go."""
        self._is_saving = False
        if is_newest:
            self.is_unsaved = False
            self.out += self._held
            self._held = []

    def withdraw_requests(self) -> None:
        """Another epoch: nobody needs to be asked what was about to be asked in the last one."""
        self._held = [effect for effect in self._held if not isinstance(effect, (SendVote, FetchFrom))]
