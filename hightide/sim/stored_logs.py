"""What must hold inside the logs at the end, batch by batch: I4 between replicas, I23, I24 and I32 in each of them.

Asked when all nodes are well. Below the high watermark everything is committed, so nothing of this is a matter of time.
"""

from collections.abc import Iterator
from typing import NamedTuple

from hightide.node.partitions import Partition
from hightide.sim.process import SimulatedProcess
from hightide.wire.records import BatchHeader, iterate_headers

READ_BYTES = 1 << 20
SEQUENCES = 1 << 31  # they wrap at int32
LOOKUPS = 20  # offsets of a log whose batch is looked up by index


class Wrong(NamedTuple):
    """A check that failed, and how."""

    check: str
    text: str


def wrong_logs(nodes: list[SimulatedProcess]) -> Iterator[Wrong]:
    """Look at every partition that is open on any of them."""
    seen: dict[tuple[bytes, int], tuple[str, Partition]] = {}
    for process in nodes:
        for partition in [] if process.node is None else process.node.assignments:
            if partition.offline_reason is not None:
                continue
            name, first = seen.setdefault((partition.topic_id, partition.index), (process.name, partition))
            if first is partition:
                yield from wrong_producers(f"{process.name}, {partition}", headers(partition))
            elif (difference := _difference(first, partition)) is not None:
                yield Wrong("I4", f"{partition} differs on {name} and {process.name} {difference}")
            yield from _wrong_lookups(f"{process.name}, {partition}", partition)


def _difference(one: Partition, other: Partition) -> str | None:
    start = max(one.log.start, other.log.start)
    end = min(one.high_watermark, other.high_watermark)
    return None if stored(one, start, end) == stored(other, start, end) else f"between {start} and {end}"


def wrong_producers(name: str, batches: list[BatchHeader]) -> Iterator[Wrong]:
    """I23: every batch once and in its order; I24: no older producer epoch after a newer one."""
    epochs: dict[int, int] = {}
    expected: dict[tuple[int, int], int] = {}
    for batch in batches:
        producer, epoch = batch.producer_id, batch.producer_epoch
        if producer < 0:
            continue
        if epoch < epochs.get(producer, 0):
            yield Wrong("I24", f"{name}: at {batch.base_offset} epoch {epoch} of producer {producer} after a newer one")
        epochs[producer] = max(epoch, epochs.get(producer, 0))
        if batch.is_control:
            continue
        wanted = expected.get((producer, epoch), batch.base_sequence)
        if batch.base_sequence != wanted:
            what = f"sequence {batch.base_sequence} of producer {producer} where {wanted} should follow"
            yield Wrong("I23", f"{name}: at {batch.base_offset} {what}")
        expected[producer, epoch] = (batch.base_sequence + batch.last_offset_delta + 1) % SEQUENCES


def _wrong_lookups(name: str, partition: Partition) -> Iterator[Wrong]:
    """I32: what an index finds is what a scan finds."""
    batches = headers(partition)
    for batch in batches[:: max(1, len(batches) // LOOKUPS)]:
        read = partition.log.read(batch.last_offset, 1, upper_bound=partition.log.end, min_one_batch=True)
        assert read is not None
        found = next(iterate_headers(read.slice.read()))[1].base_offset
        read.slice.release()
        if found != batch.base_offset:
            yield Wrong("I32", f"{name}: {batch.last_offset} is looked up at {found}, and is at {batch.base_offset}")


def headers(partition: Partition) -> list[BatchHeader]:
    """All committed batches, by a scan."""
    data = stored(partition, partition.log.start, partition.high_watermark)
    return [header for _, header in iterate_headers(data)]


def stored(partition: Partition, start: int, end: int) -> bytes:
    """The bytes of a range of offsets, both of them boundaries of batches."""
    data = bytearray()
    log, offset = partition.log, start
    while offset < end:
        read = log.read(offset, READ_BYTES, upper_bound=end, min_one_batch=True)
        if read is None:
            break
        data += read.slice.read()
        read.slice.release()
        offset = read.end
    return bytes(data)
