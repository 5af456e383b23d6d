"""CRC-32C over any buffer, by two packages that have to agree."""

import importlib.util
from types import SimpleNamespace

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hightide.wire import checksum
from hightide.wire.checksum import agree, crc32c


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_the_check_value_of_the_standard(kind: type) -> None:
    assert crc32c(kind(b"123456789")) == 0xE3069283


def test_a_checksum_can_be_continued() -> None:
    assert crc32c(b"6789", crc32c(b"12345")) == 0xE3069283


@given(st.binary(max_size=3000), st.integers(0, 40), st.integers(1, 40))
def test_it_is_what_the_other_package_computes(data: bytes, start: int, times: int) -> None:
    piece = memoryview(bytearray(data * times))[start:]
    assert crc32c(piece) == package.crc32c(piece)
    assert crc32c(piece, 0xDEADBEEF) == package.crc32c(piece, 0xDEADBEEF)


def wrong_for(length: int, *, continued: bool) -> checksum.Checksum:
    """A checksum that is right but for one length, from the beginning or continued."""

    def function(data: memoryview, before: int | None = None) -> int:
        is_wrong = len(data) == length and (before is not None) == continued
        return int(package.crc32c(data, before or 0)) ^ is_wrong

    return function


@pytest.mark.parametrize("length", [0, 1, 63, 64, 257, 599, 4093, 65_521])
@pytest.mark.parametrize("continued", [False, True])
def test_a_package_that_is_wrong_for_one_length_is_found(length: int, continued: bool) -> None:
    assert not agree(wrong_for(length, continued=continued), package.crc32c)


@pytest.mark.skipif(importlib.util.find_spec("fastcrc") is None, reason="there is no wheel of it for this machine")
def test_the_quicker_package_is_used_where_it_is_installed() -> None:
    assert checksum.SOURCE == "fastcrc"


def of_packages(quicker: object) -> object:
    """What `load_alone` is to answer."""
    modules = {"crc32c": package, "fastcrc": quicker}

    def load_alone(name: str, _: str) -> object:
        if modules[name] is None:
            raise ImportError(name)
        return modules[name]

    return load_alone


@pytest.mark.parametrize(
    ("quicker", "source"),
    [
        (SimpleNamespace(crc32=SimpleNamespace(iscsi=package.crc32c)), "fastcrc"),
        (SimpleNamespace(crc32=SimpleNamespace(iscsi=wrong_for(100, continued=False))), "crc32c"),
        (SimpleNamespace(), "crc32c"),  # a release that calls it otherwise
        (None, "crc32c"),
    ],
    ids=["right", "wrong", "without", "missing"],
)
def test_a_package_that_is_wrong_or_missing_is_done_without(
    quicker: object, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checksum, "load_alone", of_packages(quicker))
    function, found = checksum._load()
    assert found == source
    assert function(b"123456789") == 0xE3069283
