"""When nothing is wrong any more, all is well again: what liveness after healing means inside the nodes.

Every broker unfenced, every partition led by one of its replicas and in sync on all of them, and one metadata for all.
"""

from collections.abc import Iterator

from hightide.errors import ApiError
from hightide.node.node import Node
from hightide.sim.process import SimulatedProcess
from hightide.types import METADATA_TOPIC_ID

READ_BYTES = 1 << 20


def unwell(nodes: list[SimulatedProcess]) -> Iterator[str]:
    """What is not as it should be yet."""
    alive = [process.node for process in nodes if process.is_up and process.node is not None]
    if len(alive) < len(nodes):
        yield "not every node is up"
        return
    newest = max(alive, key=lambda node: node.image.offset)
    for process, node in zip(nodes, alive, strict=True):
        if node.image.offset != newest.image.offset:
            yield f"{process.name} has metadata up to {node.image.offset}, not {newest.image.offset}"
    for broker in newest.image.brokers.values():
        if not broker.live:
            yield f"broker {broker.broker_id} is fenced or shutting down"
    yield from _unwell_partitions(newest)
    for process, node in zip(nodes, alive, strict=True):
        for found in node.directory.partitions.list():
            if found.topic_id not in (METADATA_TOPIC_ID, *newest.image.topics):
                yield f"{process.name} has {found.partition} of a topic that is no more"


def _unwell_partitions(node: Node) -> Iterator[str]:
    for topic in node.image.topics.values():
        for index, partition in enumerate(topic.partitions):
            name = f"{topic.name}-{index}"
            if partition.leader not in partition.replicas:
                yield f"{name} has no leader"
            elif set(partition.replicas) != set(partition.in_sync_replicas):
                yield f"{name} is in sync on {partition.in_sync_replicas} only, of {partition.replicas}"


def scrub(process: SimulatedProcess) -> None:
    """Read everything that a node has, once: what is bad is noticed by that, and set apart (R17, I31)."""
    for partition in [] if process.node is None else list(process.node.assignments):
        log = partition.log
        offset = log.start
        try:
            while (read := partition.read(offset, READ_BYTES, log.end, at_least_one=True)) is not None:
                read.slice.release()
                offset = read.end
        except ApiError:
            continue
