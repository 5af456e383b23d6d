"""The machine of a simulated broker: the clock and the disk that its processes find."""

from random import Random

from hightide.sim.level0.partition_log import PartitionLog
from hightide.sim.level0.partition_replica import Key


class MachineClock:
    """A machine's monotonic clock: it may run a little fast or slow, or stand still for a while."""

    __slots__ = ("_frozen_at", "_offset", "rate")

    def __init__(self, rate: float = 1.0) -> None:
        self.rate = rate
        self._offset = 0.0
        self._frozen_at: float | None = None

    def read(self, now: float) -> float:
        """What it shows at a true time."""
        return now * self.rate + self._offset if self._frozen_at is None else self._frozen_at

    def freeze(self, now: float) -> None:
        """It stands still."""
        self._frozen_at = self.read(now)

    def thaw(self, now: float) -> None:
        """It goes on from where it stood."""
        if self._frozen_at is not None:
            self._offset = self._frozen_at - now * self.rate
            self._frozen_at = None


class Disk:
    """What survives a process: logs by the name of their directory, checkpoints, and what R8 wants remembered."""

    def __init__(self, broker_id: int, clock: MachineClock) -> None:
        self.broker_id = broker_id
        self.clock = clock
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.high_watermarks: dict[Key, int] = {}
        self.directory_id = b"directory" + broker_id.to_bytes(7, "big")
        self.stored_epoch = -1
        self.is_unclean = False
        """An unclean stop that the controller has not acknowledged yet (R8)."""
        self.lost_power = False
        """The boot id changed since the logs were opened last."""
        self.lost_synced = False
        """What no process can know of itself: records that were synced are gone."""

    def open(self, name: str, index: int, topic_id: bytes, *, by_id: bool) -> PartitionLog:
        """The log of a partition; one of another topic id is set aside (R22)."""
        log = self.logs.get((name, index))
        if log is None or (by_id and log.topic_id != topic_id):
            log = self.logs[name, index] = PartitionLog(topic_id)
        return log

    def lose_power(self, random: Random, keeps: int | None) -> None:
        """Only what was synced is sure to stay."""
        self.lost_power = True
        for log in self.logs.values():
            log.lose_power(random, keeps)

    def wipe(self) -> None:
        """A new disk in the old machine."""
        self.logs.clear()
        self.high_watermarks.clear()
        self.stored_epoch = -1
        self.lost_synced = True
        self.directory_id = self.directory_id[:-1] + bytes([self.directory_id[-1] + 100 & 255])

    def go_back(self, random: Random, *, older_than: int | None = None) -> None:
        """Logs lose their ends, synced or not. A copy of the whole disk is from before the life of epoch `older_than`:
        its own epoch and its checkpoints are older too. One that only lost records ends below a checkpointed high
        watermark. (A copy of the newest life is what no broker can tell from its own disk: R8 does not cover it.)"""
        self.lost_synced = True
        if older_than is not None:
            self.stored_epoch = min(self.stored_epoch, older_than - 1)
            self.high_watermarks.clear()
        for (_, index), log in self.logs.items():
            below = self.high_watermarks.get((log.topic_id, index), 0)
            if older_than is not None:
                log.truncate(random.randint(log.start, log.end))
            elif log.start < below <= log.end:
                log.truncate(random.randint(log.start, below - 1))
