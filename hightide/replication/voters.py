"""Who votes: the members of a quorum, each named by its id and the identity of its disk.

A voter whose disk was replaced comes back with another directory id. It remembers neither its votes nor what it
acknowledged, so it is not the voter it was and takes part as an observer until it is added again (R9, KIP-853).
"""

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from hightide.types import ZERO_UUID


class Voter(NamedTuple):
    """One member; an all-zero directory id says that nobody wrote down on which disk it votes."""

    id: int
    directory_id: bytes = ZERO_UUID


class VoterSet:
    """The voters of one log, in order of their ids. Invariant: at least one, and no id twice."""

    __slots__ = ("_directories", "ids", "majority")

    def __init__(self, voters: Iterable[Voter]) -> None:
        members = list(voters)
        self._directories = {voter.id: voter.directory_id for voter in members}
        self.ids = tuple(sorted(self._directories))
        self.majority = len(self.ids) // 2 + 1
        if not members or len(members) != len(self.ids):
            raise ValueError(f"a quorum needs voters with different ids, not {members}")

    @classmethod
    def of(cls, *ids: int) -> "VoterSet":
        """Voters whose disks nobody wrote down."""
        return cls(Voter(voter) for voter in ids)

    def __contains__(self, voter: object) -> bool:
        return voter in self._directories

    def __iter__(self) -> Iterator[Voter]:
        return (Voter(voter, self._directories[voter]) for voter in self.ids)

    def __len__(self) -> int:
        return len(self.ids)

    def directory_of(self, voter: int) -> bytes:
        """On which disk this voter votes; zero when unknown."""
        return self._directories.get(voter, ZERO_UUID)

    def includes(self, voter: int, directory_id: bytes) -> bool:
        """Whether this node votes from this disk. An unknown disk on either side is no contradiction."""
        expected = self._directories.get(voter)
        return expected == directory_id or (expected is not None and may_be_same_disk(expected, directory_id))


def may_be_same_disk(one: bytes, other: bytes) -> bool:
    """Two names of a disk that do not contradict each other."""
    return one == other or ZERO_UUID in (one, other)
