"""The words of the domain that every layer shares.

Topic ids travel as 16 raw bytes: they are dictionary keys on the hot path, and `bytes` hashes once.
"""

from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Final, NamedTuple

ZERO_UUID: Final = bytes(16)
METADATA_TOPIC: Final = "__cluster_metadata"
OFFSETS_TOPIC: Final = "__consumer_offsets"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC})  # what brokers write for themselves
METADATA_TOPIC_ID: Final = bytes(15) + b"\x01"
NO_BROKER: Final = -1
NO_EPOCH: Final = -1
NO_OFFSET: Final = -1
NO_TIMESTAMP: Final = -1
ABOVE_ALL_OFFSETS: Final = 1 << 61  # and yet, unlike 2**63 - 1, a machine's number where the hot path is compiled
NO_PRODUCER_ID: Final = -1


class TopicPartition(NamedTuple):
    """A partition by its topic's name, as people and old request versions say it."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}-{self.partition}"


class PartitionKey(NamedTuple):
    """A partition by its topic's id: the identity that replication and storage use (C3, R22)."""

    topic_id: bytes
    partition: int


def format_uuid(value: bytes) -> str:
    """Kafka's way to print a 128-bit id: URL-safe base64 without padding."""
    return urlsafe_b64encode(value).decode().rstrip("=")


def parse_uuid(text: str) -> bytes:
    """The inverse of `format_uuid`; ValueError when it is not 128 bits."""
    value = urlsafe_b64decode(text + "==")
    if len(value) != 16:
        raise ValueError(f"{text!r} is not a 128-bit id")
    return value


def partition_cluster_id(topic_id: bytes, partition: int) -> bytes:
    """The 128-bit name of a partition's replica set: a stable hash that anyone can compute (C3)."""
    from hashlib import sha256

    return sha256(topic_id + partition.to_bytes(4, "big")).digest()[:16]
