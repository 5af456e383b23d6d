"""Each client writes with each codec; every client reads what the others wrote, byte for byte."""

from __future__ import annotations

import pytest

from tests.conformance.clients.message import Client, Message
from tests.conformance.clients.parametrize import every_client
from tests.conformance.cluster import Cluster

CODECS = ["none", "gzip", "snappy", "lz4", "zstd"]
# Long and repetitive, or the clients send them uncompressed after all; beyond snappy's block of 32 KiB too.
MESSAGES = [
    Message(b"a line that repeats itself; " * 40, b"key-1", (("trace", b"abc"), ("kind", b"x"))),
    Message("grüße, 世界 ".encode() * 3000, None),
    Message(b"0123456789" * 20_000, b"key-3"),
]


@pytest.mark.covers("T18")
@pytest.mark.parametrize("codec", CODECS)
@every_client
def test_what_one_client_writes_every_client_reads(
    cluster: Cluster, client: Client, readers: list[Client], codec: str
) -> None:
    topic = cluster.create_topic()
    assert all(sent.error == 0 for sent in client.produce(topic, MESSAGES, codec=codec))
    assert {batch.codec for batch in cluster.batches(topic)} == {cluster.codec_sent(client, codec)}, "kept as sent"
    expected = [(message.key, message.value, message.headers) for message in MESSAGES]
    for reader in readers:
        assert [record.content for record in reader.consume(topic, len(MESSAGES))] == expected, reader.name


@pytest.mark.parametrize("codec", CODECS[1:])
def test_topic_setting_recompresses(cluster: Cluster, readers: list[Client], codec: str) -> None:
    """`compression.type` other than `producer` is what the log must contain, whatever the client chose."""
    topic = cluster.create_topic(compression_type=codec)
    writer = readers[0]
    for sent_as in ("none", "gzip"):
        assert all(sent.error == 0 for sent in writer.produce(topic, MESSAGES, codec=sent_as))
    assert {batch.codec for batch in cluster.batches(topic)} == {codec}
    expected = [(message.key, message.value, message.headers) for message in MESSAGES] * 2
    for reader in readers:
        assert [record.content for record in reader.consume(topic, len(expected))] == expected, reader.name
