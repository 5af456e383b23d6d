"""How fast replicas that are behind may catch up, where an operator said so, at either end of the copy.

As in Kafka a topic lists the replicas that are throttled, and a broker has a rate for each end. Replicas in sync never
wait, since producers wait for them. Unlike in Kafka they do not count either: else a busy topic leaves nothing of the
rate to those that are behind, and they never catch up.
"""

from collections.abc import Container, Sequence
from typing import Final

UNLIMITED: Final = 2**63 - 1  # Kafka's default
BURST_SECONDS: Final = 1.0  # an idle throttle lets this much pass at once
NOBODY: Final[Container[int]] = frozenset()
EVERYBODY: Final[Container[int]] = range(2**31)


class Throttle:
    """A bucket of bytes that fills at a rate. A copy may overdraw it; the next one waits until that is paid back."""

    __slots__ = ("_bytes", "_rate", "_since")

    def __init__(self) -> None:
        self._rate = UNLIMITED
        self._bytes = 0.0
        self._since = 0.0

    @property
    def is_on(self) -> bool:
        """Whether there is a limit at all."""
        return self._rate != UNLIMITED

    def limit(self, rate: int, now: float) -> None:
        """From now on so many bytes a second; a debt of the old rate is forgiven."""
        if rate != self._rate:
            self._rate, self._bytes, self._since = rate, rate * BURST_SECONDS, now

    def took(self, size: int, now: float) -> None:
        """So many bytes were copied."""
        self._fill(now)
        self._bytes -= size

    def seconds_to_wait(self, now: float) -> float:
        """0 when there is something left; infinity for a rate of 0."""
        self._fill(now)
        if self._bytes > 0:
            return 0.0
        return float("inf") if self._rate == 0 else max(-self._bytes, 1) / self._rate

    def _fill(self, now: float) -> None:
        full = self._rate * BURST_SECONDS
        self._bytes = min(full, self._bytes + self._rate * max(0.0, now - self._since))
        self._since = now


def throttled_brokers(listed: Sequence[str], partition: int) -> Container[int]:
    """Whose replicas of a partition a topic's list names; the settings have checked the list's form."""
    if not listed:
        return NOBODY
    if list(listed) == ["*"]:
        return EVERYBODY
    pairs = [entry.split(":") for entry in listed]
    return frozenset(int(broker) for index, broker in pairs if int(index) == partition)
