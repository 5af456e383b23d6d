"""The order in which a log takes over what a helper made (R20): written down once, for every world.

`take_over` stops wherever something must be durable before it goes on. A node syncs it away from its loop and does
other work meanwhile, so anything may have happened to the log when it goes on: each step looks again.
"""

from collections.abc import Generator, Sequence

from hightide.storage.compaction_plans import Cleaned, Finished
from hightide.storage.directory import LogDirectory
from hightide.storage.files import Syncable
from hightide.storage.log import Log
from hightide.types import TopicPartition


class _Checkpoints:
    """The directory's checkpoints, as something that a Syncer can make last."""

    def __init__(self, directory: LogDirectory) -> None:
        self._directory = directory

    def sync(self) -> None:
        """Write them."""
        self._directory.write_checkpoints()


def take_over(
    log: Log, directory: LogDirectory, cleaned: Cleaned, generation: int, now_ms: int
) -> Generator[Sequence[Syncable], None, bool]:
    """Put one compacted group into its place; whether it is there in the end. Sync what is yielded before going on.

    `generation` is the log's truncation generation when the job was made. A group that can't be taken over ends the
    whole round: what later groups leave out, they leave out because of what this one would have kept.
    """
    if not cleaned.is_changed:
        return generation == log.truncation_generation
    key = TopicPartition(log.topic, log.partition)
    if cleaned.horizon > log.tombstone_horizon or not directory.has_stored_horizon(key):
        # Durable first: a follower that lacks these tombstones must be told so by the next life of this log too.
        directory.remember(tombstone_horizons={key: max(cleaned.horizon, log.tombstone_horizon)})
        yield [_Checkpoints(directory)]
    names = log.begin_swap(cleaned, generation)
    if names is None:
        return False
    yield names
    names = log.exchange_swap(now_ms, cleaned)
    if names is None:
        return False
    yield names
    log.settle_swap()
    return True


def finish_round(log: Log, directory: LogDirectory, finished: Finished, generation: int) -> bool:
    """Remember how far the log is clean; whether it is, which it is not if it was cut meanwhile.

    What came in place of what was cut was never looked at: were it called clean, a tombstone in it could go before what
    it deletes.
    """
    if generation != log.truncation_generation:
        return False
    directory.remember(clean_ends={TopicPartition(log.topic, log.partition): finished.clean_end})
    return True
