"""Members of a consumer group on simulated hosts, on the real client library: they join, handle, commit, and tell.

What a member handled is a number that only grows; K16 asks whether the group's offsets and owners make sense. After a
commit whose fate nobody knows a member starts over under a new id, so that the old one can't come late and count.
"""

import asyncio
from random import Random

from hightide.client.membership import Assigned, GroupMember, MembershipLostError
from hightide.client.retries import sleep
from hightide.errors import ErrorCode
from hightide.sim.workload import ERRORS, TOPIC, Workload
from hightide.sim.world import SimulatedClient
from hightide.types import TopicPartition

GROUP = "group"
SESSION_MS, STATIC_SESSION_MS, REBALANCE_MS = 6_000, 15_000, 5_000
STEP_SECONDS = (0.2, 1.2)
PAUSE_SECONDS = 0.5


class GroupWorkload:
    """What all members of the group share. `owned` is what each believes to have now."""

    def __init__(self, workload: Workload) -> None:
        self.workload = workload
        self.history = workload.history
        self.owned: dict[str, frozenset[TopicPartition]] = {}
        self.commits = 0
        self.generations: set[int] = set()

    @property
    def is_settled(self) -> bool:
        """Whether every partition has one owner."""
        owned = sorted(place for places in self.owned.values() for place in places)
        return owned == sorted(self.workload.partitions)

    async def member(self, client: SimulatedClient, random: Random, instance: str | None = None) -> None:
        """Be a member for ever: whatever goes wrong, begin again."""
        while True:
            cluster = self.workload.connect(client)
            member = GroupMember(
                cluster,
                GROUP,
                [TOPIC],
                instance=instance,
                session_timeout_ms=SESSION_MS if instance is None else STATIC_SESSION_MS,
                rebalance_timeout_ms=REBALANCE_MS,
            )
            try:
                while True:
                    await self._own(client, member, await member.join(), instance, random)
            except ERRORS:
                await sleep(client.clock, PAUSE_SECONDS)
            finally:
                self.owned.pop(client.name, None)
                cluster.close()

    async def _own(
        self, client: SimulatedClient, member: GroupMember, assigned: Assigned, instance: str | None, random: Random
    ) -> None:
        """Work until the group wants this member to join again."""
        history = self.history
        self.generations.add(assigned.generation)
        owner = instance or member.member_id
        ownership = history.owned(owner, GROUP, assigned.partitions, assigned.generation)
        self.owned[client.name] = ownership.partitions
        try:
            positions = await self.read(client.name, member, assigned.partitions)
            kept = dict(positions)
            while True:
                await sleep(client.clock, random.uniform(*STEP_SECONDS))
                for place in positions:
                    positions[place] += random.randrange(3)
                if positions != kept and random.random() < 0.5:
                    await self._commit(client.name, member, positions)
                    kept = dict(positions)
                else:
                    await member.heartbeat()
        except MembershipLostError as error:
            if error.code is ErrorCode.REBALANCE_IN_PROGRESS and positions != kept:
                await self._last_commit(client.name, member, positions)
        finally:
            self.owned.pop(client.name, None)
            history.gave_up(ownership)

    async def read(
        self, name: str, member: GroupMember, partitions: tuple[TopicPartition, ...]
    ) -> dict[TopicPartition, int]:
        """How far the group has come, and the history hears of it."""
        if not partitions:
            return {}
        asked = self.history.moment()
        offsets = await member.committed(partitions)
        self.history.read_committed(name, GROUP, offsets, asked=asked)
        return {place: max(0, offset) for place, offset in offsets.items()}

    async def _last_commit(self, name: str, member: GroupMember, positions: dict[TopicPartition, int]) -> None:
        try:
            await self._commit(name, member, positions)
        except MembershipLostError:
            return

    async def _commit(self, name: str, member: GroupMember, positions: dict[TopicPartition, int]) -> None:
        commit = self.history.begin_commit(name, GROUP, positions)
        try:
            await member.commit(positions)
        except MembershipLostError as error:
            self.history.failed(commit, error.code.name)
            raise
        except (*ERRORS, asyncio.CancelledError) as error:
            self.history.unknown(commit, str(error))
            raise
        self.commits += 1
        self.history.committed(commit)
