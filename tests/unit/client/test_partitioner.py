"""Keys go where the Java client sends them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from hightide.client.partitioner import StickyChoice, murmur2, partition_for_key

# org.apache.kafka.common.utils.UtilsTest.testMurmur2, as signed Java ints.
JAVA_VECTORS = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("key", "expected"), JAVA_VECTORS.items())
def test_murmur2_is_javas(key: bytes, expected: int) -> None:
    assert murmur2(key) == expected % 2**32


@given(st.binary(max_size=70))
def test_murmur2_is_kafka_pythons(key: bytes) -> None:
    assert murmur2(key) == kafka_python_murmur2(key) % 2**32


@given(st.binary(max_size=20), st.integers(1, 1000))
def test_a_key_has_one_partition(key: bytes, count: int) -> None:
    partition = partition_for_key(key, count)
    assert 0 <= partition < count
    assert partition == (kafka_python_murmur2(key) & 0x7FFFFFFF) % count


def test_records_without_a_key_stick_until_a_batch_is_full() -> None:
    choice = StickyChoice(switch_bytes=100, start=4)
    assert [choice.choose(3, 50) for _ in range(7)] == [1, 1, 2, 2, 0, 0, 1]
