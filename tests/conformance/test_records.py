"""What a record may hold: nulls, tombstones, empty strings, any bytes, headers that repeat; and where it lands."""

from __future__ import annotations

import pytest

from tests.conformance.clients.message import Client, Message
from tests.conformance.clients.parametrize import client_parameters, every_client
from tests.conformance.cluster import Cluster

TEXT_MESSAGES = [
    Message(b"plain"),
    Message(b"keyed", b"k"),
    Message(None, b"tombstone"),
    Message(b"", b"empty value"),
    Message(b"with headers", b"k", (("one", b"1"), ("two", b"2"), ("one", b"again"), ("empty", b""))),
]
ANY_MESSAGES = [
    Message(b"", b""),
    Message(bytes(range(256)) * 3, bytes(range(255, -1, -1))),
    Message(b"binary header", b"k", (("binary", b"\x00\xff\n,="),)),
    Message(b"x", b"k", tuple((f"header-{number}", b"%d" % number) for number in range(100))),
]


@every_client
def test_nulls_tombstones_empty_values_and_headers(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    assert all(sent.error == 0 for sent in client.produce(topic, TEXT_MESSAGES))
    expected = [(message.key, message.value, message.headers) for message in TEXT_MESSAGES]
    for reader in readers:
        assert [record.content for record in reader.consume(topic, len(expected))] == expected, reader.name


@client_parameters("kcat")
def test_any_bytes_at_all(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    """What a command line cannot carry: binary keys and headers, a hundred headers."""
    topic = cluster.create_topic()
    assert all(sent.error == 0 for sent in client.produce(topic, ANY_MESSAGES))
    expected = [(message.key, message.value, message.headers) for message in ANY_MESSAGES]
    for reader in readers:
        if reader.name != "kcat":
            assert [record.content for record in reader.consume(topic, len(expected))] == expected, reader.name


@client_parameters("kcat", "aiokafka", "kafka-python")
def test_neither_key_nor_value_and_headers_without_one(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    """The Python clients refuse to send it; they have to read it."""
    topic = cluster.create_topic()
    headers = (("nothing", None), ("", b"no name"))
    assert client.produce(topic, [Message(None, None, headers)])[0].error == 0
    for reader in readers:
        if reader.name != "kcat":
            assert reader.consume(topic, 1)[0].content == (None, None, headers), reader.name


@every_client
def test_records_stay_in_order_across_batches(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    count = 20 if client.name == "kcat" else 500
    values = [b"%06d" % number for number in range(count)]
    sent = client.produce(topic, [Message(value) for value in values])
    if client.name != "kcat":
        assert [one.offset for one in sent] == list(range(count))
    for reader in readers:
        received = reader.consume(topic, count)
        assert [record.value for record in received] == values, reader.name
        assert [record.offset for record in received] == list(range(count)), reader.name


@every_client
def test_consumers_start_in_the_middle_of_a_batch(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic()
    writer = readers[0]
    writer.produce(topic, [Message(b"%d" % number) for number in range(50)], settings={"linger.ms": 50})
    assert len(cluster.batches(topic)) < 50, "some batch must have several records"
    for offset in (1, 17, 49):
        received = client.consume(topic, 50 - offset, offset=offset)
        assert [record.offset for record in received] == list(range(offset, 50))


@every_client
def test_partitions_are_apart(cluster: Cluster, client: Client, readers: list[Client]) -> None:
    topic = cluster.create_topic(partitions=3)
    for partition in range(3):
        assert client.produce(topic, [Message(b"p%d" % partition)], partition=partition)[0].error == 0
    for partition in range(3):
        records = readers[0].consume(topic, 1, partition=partition)
        assert [(record.offset, record.value) for record in records] == [(0, b"p%d" % partition)]


@pytest.mark.covers("T6")
@pytest.mark.parametrize("acks", ["0", "1", "all"])
@every_client
def test_acks(cluster: Cluster, client: Client, readers: list[Client], acks: str) -> None:
    topic = cluster.create_topic()
    sent = client.produce(topic, [Message(b"acknowledged"), Message(b"or not")], acks=acks)
    assert [one.error for one in sent] == [0, 0]
    assert [record.value for record in readers[0].consume(topic, 2)] == [b"acknowledged", b"or not"]
