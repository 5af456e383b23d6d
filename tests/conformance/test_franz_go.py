"""franz-go from its first record to the end of its group: an engine of its own, as librdkafka and Java's client are."""

from __future__ import annotations

import pytest
from kio.schema.errors import ErrorCode

from tests.conformance.clients.franz_go import FranzGo, GoMissingError
from tests.conformance.clients.librdkafka import ConfluentClient
from tests.conformance.cluster import Cluster, settles

pytestmark = pytest.mark.xdist_group("franz-go")

CODECS = ("none", "gzip", "snappy", "lz4", "zstd")
COUNT = 200
PARTITIONS = 3


@pytest.fixture(scope="module")
def franz() -> FranzGo:
    try:
        return FranzGo()
    except GoMissingError as error:
        pytest.skip(str(error))


@pytest.mark.covers("T18")
@pytest.mark.parametrize("codec", CODECS)
def test_what_it_writes_others_read(cluster: Cluster, franz: FranzGo, codec: str) -> None:
    topic = cluster.create_topic()
    franz.run("produce", cluster.bootstrap, topic, codec, str(COUNT))
    received = ConfluentClient(cluster.bootstrap).consume(topic, COUNT)
    expected = [f"{codec} {number}".encode() for number in range(COUNT)]
    assert [record.value for record in received] == [record.key for record in received] == expected
    assert {record.headers for record in received} == {(("codec", codec.encode()),)}


@pytest.mark.covers("T18")
@pytest.mark.parametrize("balancer", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_a_group_of_two_reads_everything_and_its_admin_sees_it(cluster: Cluster, franz: FranzGo, balancer: str) -> None:
    topic, group = cluster.create_topic(partitions=PARTITIONS), f"franz-{balancer}"
    for codec in CODECS:
        franz.run("produce", cluster.bootstrap, topic, codec, str(COUNT))
    total = len(CODECS) * COUNT
    read = franz.run("consume", cluster.bootstrap, topic, group, balancer, str(total))
    assert set(read["values"]) == {f"{codec} {number}" for codec in CODECS for number in range(COUNT)}
    assert read["headers"] == len(read["values"])
    assert franz.run("admin", cluster.bootstrap, topic, group) == {
        "partitions": PARTITIONS,
        "retention.ms": "70000",
        "end": total,
        "lag": 0,
        "state": "Empty",
        "unknown": 0,
        "grown": PARTITIONS + 2,
        "start": 1,
    }
    settles(lambda: cluster.describe_topic(topic).error_code, ErrorCode.unknown_topic_or_partition)
