"""The coordinator of the groups in one partition of `__consumer_offsets`: decide(request, now) → records and answers.

The node appends what was decided, then `apply` moves the state on, exactly as when the log is loaded; the answers
leave when the records are committed (R14). Everything that is judged is the newest *appended* state, as R24 has it for
the controller. Whoever loses the partition drops this object with everything that was never committed.
"""

from collections.abc import Iterator

from hightide.coordination.classic_group import Group, Phase
from hightide.coordination.classic_groups import ClassicGroups
from hightide.coordination.decisions import Caller, GroupRecord
from hightide.coordination.offsets import Offsets, tombstone
from hightide.coordination.settings import GroupSettings
from hightide.errors import ApiError, ErrorCode
from hightide.rules import ALL_ON, Rules
from hightide.wire.messages.group_log import (
    GroupMetadataKey,
    GroupMetadataValue,
    OffsetCommitKey,
    OffsetCommitValue,
)


class GroupCoordinator:
    """All groups of one partition, and what they committed."""

    def __init__(self, settings: GroupSettings, rules: Rules = ALL_ON) -> None:
        self.classic = ClassicGroups(settings, rules)
        self.offsets = Offsets(self.classic)

    @property
    def groups(self) -> dict[str, Group]:
        """By id."""
        return self.classic.groups

    @property
    def next_deadline(self) -> float | None:
        """When `classic.time_passed` has something to do at the earliest."""
        return self.classic.timers.next_at

    def configure(self, settings: GroupSettings) -> None:
        """Take changed settings."""
        self.classic.settings = settings

    # ------------------------------------------------------------------ the log

    def apply(self, record: GroupRecord, end: int) -> None:
        """One record of the log, which ends at `end` with it."""
        key, value = record
        if isinstance(key, OffsetCommitKey):
            assert value is None or isinstance(value, OffsetCommitValue)
            self.offsets.apply(key, value, end)
        elif isinstance(key, GroupMetadataKey):
            assert value is None or isinstance(value, GroupMetadataValue)
            self.classic.apply(key.group, value, end)

    def loaded(self, now: float) -> None:
        """The log was read: every member has a whole session to be heard of."""
        self.classic.refresh(now)

    def waiting(self) -> Iterator[Caller]:
        """Everybody who waits for an answer of this coordinator."""
        for group in self.groups.values():
            yield from group.waiting()

    # ------------------------------------------------------------------ whole groups

    def delete_group(self, group_id: str) -> list[GroupRecord]:
        """Tombstones for a group and everything it committed; ApiError when it may not be deleted."""
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(ErrorCode.GROUP_ID_NOT_FOUND)
        if group.phase is not Phase.EMPTY:
            raise ApiError(ErrorCode.NON_EMPTY_GROUP)
        records = [tombstone(group_id, place) for place in group.offsets]
        return [*records, GroupRecord(GroupMetadataKey(group=group_id), None)]
