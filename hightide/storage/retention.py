"""How much of a log may go: by time and by size, never past the high watermark, never because a clock jumped."""

from collections.abc import Iterable

from hightide.storage.segment import Segment
from hightide.storage.settings import FOREVER, LogSettings

CLOCK_LEAD_MAX = 0.01  # how much faster than real time the believed time may run to catch up with the wall clock


def plan_start(segments: Iterable[Segment], settings: LogSettings, now_ms: int, start: int, high_watermark: int) -> int:
    """The log start that retention asks for; `start` itself when nothing is due.

    Whole segments only, oldest first, and like in Kafka the active one too. A segment is as old as its youngest record.
    """
    if not settings.delete_policy:
        return start
    segments = list(segments)
    excess = sum(segment.size for segment in segments) - settings.retention_bytes
    for segment in segments:
        if segment.end > high_watermark or segment.size == 0:
            break
        is_excess = settings.retention_bytes != FOREVER and excess >= segment.size
        if not is_excess and not _is_expired(segment, settings.retention_ms, now_ms):
            break
        excess -= segment.size
        start = max(start, segment.end)
    return start


def _is_expired(segment: Segment, retention_ms: int, now_ms: int) -> bool:
    return retention_ms != FOREVER and now_ms - segment.youngest_ms() > retention_ms


class RetentionClock:
    """The time that retention believes in: the wall clock, unless it jumps forward.

    Believed time advances with the monotonic clock and at most 1 % faster, so that a wall clock that leaps by a year
    deletes nothing today, while a slewed one is followed. A wall clock that is behind is believed at once: then too
    little is deleted, which harms nobody. At the start of a process the wall clock is all there is.
    """

    __slots__ = ("_believed_ms", "_read_at")

    def __init__(self, wall_ms: int, monotonic_seconds: float) -> None:
        self._believed_ms = wall_ms
        self._read_at = monotonic_seconds

    def now_ms(self, wall_ms: int, monotonic_seconds: float) -> int:
        """The believed time, given both clocks now."""
        elapsed_ms = (monotonic_seconds - self._read_at) * 1000 * (1 + CLOCK_LEAD_MAX)
        step_ms = int(elapsed_ms)
        if step_ms > 0:
            self._read_at = monotonic_seconds
            self._believed_ms += step_ms
        self._believed_ms = min(self._believed_ms, wall_ms)
        return self._believed_ms
