"""Whether a log directory takes bytes: online, read-only when the disk is full, offline when it failed (R10).

The reserve is a preallocated file. When space runs out it is given up, so that votes, checkpoints, epoch histories and
marks can still be written while records are refused; it is taken back, and records accepted again, when twice as much
is free. There is no way back from offline in this process life: a disk that failed once is believed about nothing.
"""

import errno
from collections.abc import Callable
from enum import Enum

from hightide.limits import READ_ONLY_BELOW_BYTES, RESERVE_BYTES
from hightide.rules import ALL_ON, Rules
from hightide.storage.files import Files

RESERVE_FILE = "reserve"


class Condition(Enum):
    """What may be done with a log directory."""

    ONLINE = "online"
    READ_ONLY = "read-only"
    OFFLINE = "offline"


class Space:
    """The condition of one log directory and its reserve."""

    def __init__(self, files: Files, directory: str, reserve_bytes: int = RESERVE_BYTES, rules: Rules = ALL_ON) -> None:
        self._files = files
        self._directory = directory
        self._reserve_path = f"{directory}/{RESERVE_FILE}"
        self._reserve_bytes = reserve_bytes
        self._read_only_below = min(READ_ONLY_BELOW_BYTES, reserve_bytes)
        self._rules = rules
        self.condition = Condition.ONLINE
        self.reason = ""
        """Why it is not online, in a sentence for people."""
        self.accepts_records = True
        """Whether records may be appended: asked on every produce."""
        self.on_change: Callable[[], None] | None = None
        """Called when the condition has changed, whoever noticed: a client's record, a checkpoint, the metadata log."""

    def open(self) -> None:
        """Take the reserve; a directory without room for it starts read-only."""
        if self.condition is Condition.ONLINE:
            try:
                self._reserve()
            except OSError as error:
                self.write_failed(error)
        self.check()

    def check(self) -> None:
        """Look at the free space: refuse records before the disk is full, accept them when there is room again."""
        if self.condition is Condition.OFFLINE:
            return
        try:
            free = self._files.free_bytes(self._directory)
            if self.condition is Condition.ONLINE and free < self._read_only_below:
                self._close(f"{self._directory} has {free} bytes left: records are refused until there is room again")
            elif self.condition is Condition.READ_ONLY and free > 2 * self._reserve_bytes:
                self._reserve()
                self._become(Condition.ONLINE, "")
        except OSError as error:
            self.write_failed(error)

    def write_failed(self, error: OSError) -> None:
        """A write failed and was undone: a full disk refuses records, any other failure ends the directory."""
        if self.condition is Condition.OFFLINE:
            return
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            self._close(f"{self._directory} is full: records are refused until there is room again")
        else:
            self.take_offline(f"{self._directory} failed: {error}")

    def sync_failed(self, error: OSError) -> None:
        """An fsync failed. It is never retried: the pages look clean now, and the next one would lie (R10, R19)."""
        if self._rules.r10_offline_on_failed_sync:
            self.take_offline(f"{self._directory} failed to make bytes last: {error}")

    def take_offline(self, reason: str) -> None:
        """Nothing more is appended or believed."""
        if self.condition is not Condition.OFFLINE:
            self._become(Condition.OFFLINE, reason)

    def _become(self, condition: Condition, reason: str) -> None:
        is_change = condition is not self.condition
        self.condition = condition
        self.reason = reason
        self.accepts_records = condition is Condition.ONLINE
        if is_change and self.on_change is not None:
            self.on_change()

    def _close(self, reason: str) -> None:
        self._become(Condition.READ_ONLY, reason)
        self._give_up_reserve()

    def _reserve(self) -> None:
        if self._reserve_bytes == 0:
            return
        file = self._files.open(self._reserve_path, create=True)
        try:
            if file.size() < self._reserve_bytes:
                file.allocate(self._reserve_bytes)
        finally:
            file.close()

    def _give_up_reserve(self) -> None:
        try:
            file = self._files.open(self._reserve_path)
        except FileNotFoundError:
            return
        try:
            file.truncate(0)
        except OSError as error:
            self.take_offline(f"{self._directory} failed: {error}")
        finally:
            file.close()
