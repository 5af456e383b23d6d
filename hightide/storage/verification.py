"""Making sure of stored bytes before anyone gets them: CRC, order, epoch (I31).

What this process wrote or scanned is known to be good. What it merely found after a clean stop is verified when it is
first asked for, a few milliseconds' worth at a time. A scrub looks at everything again and again, because bits turn
later too. No CRC covers the base offset and the leader epoch of a batch, so
they must fit their neighbours and the epoch history.
"""

from typing import NamedTuple

from hightide.limits import (
    SCRUB_STEP_BATCHES,
    SCRUB_STEP_BYTES,
    VERIFIED_BATCHES_PER_READ,
    VERIFIED_BYTES_PER_READ,
    VERIFIED_CHUNK_BYTES,
)
from hightide.storage.epochs import EpochHistory
from hightide.storage.scanning import BadBatchError, Chain, verified_from
from hightide.storage.segment import Segment
from hightide.types import NO_EPOCH


class Scrubbed(NamedTuple):
    """How far a scrub of a log has come. Void for a segment that was cut or replaced since."""

    segment: Segment
    position: int
    truncation_generation: int

    def prepared(self) -> "Scrubbed":
        """Let the disk bring what comes next, so that the loop does not wait for it then."""
        self.segment.file.expect(self.position, SCRUB_STEP_BYTES)
        return self


class Verification:
    """Verifies ranges of the segments of one log."""

    __slots__ = ("_epochs", "gaps")

    def __init__(self, epochs: EpochHistory, *, gaps: bool) -> None:
        self._epochs = epochs
        self.gaps = gaps

    def verify(self, segment: Segment, start: int, stop: int) -> tuple[int, int] | None:
        """Make sure of bytes from one boundary to another; CorruptionError when they are bad.

        None when all of them are good. Otherwise only a part could be made sure of now: its end and the offset there.
        """
        if start >= segment.verified_start:
            return None
        known = segment.verified_range(start)
        if known is None:
            known = self._verify(segment, start, stop, VERIFIED_BATCHES_PER_READ, VERIFIED_BYTES_PER_READ)
            segment.mark_verified(start, *known)
        return None if known[0] >= stop else known

    def look_again(self, segment: Segment, start: int) -> int:
        """Make sure of bytes that may have been good before, from one boundary on: where the next ones begin."""
        return self._verify(segment, start, segment.size, SCRUB_STEP_BATCHES, SCRUB_STEP_BYTES)[0]

    def _verify(self, segment: Segment, start: int, stop: int, batches_max: int, bytes_max: int) -> tuple[int, int]:
        chain: Chain | None = None
        position = start
        for count, batch in enumerate(verified_from(segment.file, start, stop, VERIFIED_CHUNK_BYTES), 1):
            header = batch.header
            if chain is None:
                chain = Chain(header.base_offset, NO_EPOCH, gaps=self.gaps)
            reason = chain.admit(header)
            if header.partition_leader_epoch != self._epochs.epoch_at(header.last_offset):
                reason = f"has leader epoch {header.partition_leader_epoch}, which did not write it"
            if reason is not None:
                raise BadBatchError(segment.file, batch.position, reason)
            position = batch.position + header.size
            if count >= batches_max or position - start >= bytes_max:
                break
        assert chain is not None
        self._check_follower(segment, position, chain.following)
        return position, chain.following

    def _check_follower(self, segment: Segment, position: int, following: int) -> None:
        """What comes behind must begin where the range ended, or the offsets of the range are wrong."""
        found = segment.end if position >= segment.size else segment.batch_at(position).base_offset
        if found != following and not (self.gaps and found > following):
            raise BadBatchError(segment.file, position, f"begins at offset {found} where {following} should follow")
