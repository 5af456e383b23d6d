"""What differs between two images: the delta of a snapshot that took the place of all the batches in between.

A node that loaded a snapshot reacts to it as to any committed batch. Possible losses (R7) are told by batches only:
whoever was there told of them.
"""

from collections.abc import Generator, Hashable, Iterator, Mapping
from typing import Final, TypeVar

from hightide.metadata.image import Delta, Image
from hightide.types import PartitionKey

K = TypeVar("K", bound=Hashable)
_COMPARED_PER_STEP: Final = 2048


def difference(before: Image, after: Image) -> Generator[None, None, Delta]:
    """The delta from one image to a newer one, as the generator's result; each step of it is short."""
    partitions: list[PartitionKey] = []
    created = []
    compared = 0
    for topic_id, topic in after.topics.items():
        former = before.topics.get(topic_id)
        if former is None:
            created.append(topic)
        known = former.partitions if former is not None else ()
        for number, partition in enumerate(topic.partitions):
            if number >= len(known) or known[number] != partition:
                partitions.append(PartitionKey(topic_id, number))
        compared += 1 + len(topic.partitions)
        if compared >= _COMPARED_PER_STEP:
            compared = 0
            yield
    deleted = tuple(topic for topic_id, topic in before.topics.items() if topic_id not in after.topics)
    yield
    return Delta(
        tuple(created),
        deleted,
        tuple(partitions),
        tuple(_changed(before.configs, after.configs)),
        tuple(_changed(before.brokers, after.brokers)),
        before.features != after.features,
        before.next_producer_id != after.next_producer_id,
    )


def _changed(before: Mapping[K, object], after: Mapping[K, object]) -> Iterator[K]:
    """The keys with another value, or with one in only one of the two."""
    for key, value in after.items():
        if key not in before or before[key] != value:
            yield key
    for key in before:
        if key not in after:
            yield key
