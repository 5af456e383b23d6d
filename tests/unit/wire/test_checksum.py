"""CRC-32C over any buffer."""

import pytest

from hightide.wire.checksum import crc32c


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_check_value_of_the_standard(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_a_checksum_can_be_continued() -> None:
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283
