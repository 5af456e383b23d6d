"""The four codecs: round trips, what other writers produce, damage, and bombs that stay small."""

import gzip
import zlib
from collections.abc import Callable
from pathlib import Path
from struct import pack

import cramjam
import pytest

from hightide.errors import ProtocolError
from hightide.limits import KIB, MIB
from hightide.wire.compression import XERIAL_HEADER, Codec, compress, decompress

COMPRESSING = [Codec.GZIP, Codec.SNAPPY, Codec.LZ4, Codec.ZSTD]
TEXT = b"the quick brown fox jumps over the lazy dog. " * 2_000


@pytest.mark.parametrize("codec", list(Codec))
@pytest.mark.parametrize("size", [0, 1, 100, 32 * KIB, 32 * KIB + 1, len(TEXT)])
def test_what_goes_in_comes_out(codec: Codec, size: int) -> None:
    assert decompress(codec, compress(codec, TEXT[:size]), size) == TEXT[:size]


@pytest.mark.parametrize("codec", COMPRESSING)
def test_large_data_comes_out_too(codec: Codec) -> None:
    data = bytes(range(256)) * 20 * KIB
    assert decompress(codec, compress(codec, data), 100 * MIB) == data


@pytest.mark.parametrize("codec", COMPRESSING)
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_any_kind_of_buffer_will_do(codec: Codec, kind: type) -> None:
    assert decompress(codec, kind(compress(codec, kind(TEXT))), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", list(Codec))
def test_one_byte_above_the_limit_is_refused(codec: Codec) -> None:
    with pytest.raises(ProtocolError):
        decompress(codec, compress(codec, TEXT), len(TEXT) - 1)


@pytest.mark.parametrize(
    ("codec", "levels"), [(Codec.GZIP, (-1, 1, 9)), (Codec.LZ4, (1, 9, 17)), (Codec.ZSTD, (-131072, 1, 3, 22))]
)
def test_every_level_that_kafka_allows_works(codec: Codec, levels: tuple[int, ...]) -> None:
    for level in levels:
        assert decompress(codec, compress(codec, TEXT, level), len(TEXT)) == TEXT


def test_lz4_blocks_are_independent_because_java_reads_no_others() -> None:
    assert compress(Codec.LZ4, TEXT)[4] & 0x20


def test_lz4_frames_with_linked_blocks_are_read() -> None:
    compressor = cramjam.lz4.Compressor(block_linked=True)
    compressor.compress(TEXT * 3)
    assert decompress(Codec.LZ4, bytes(compressor.finish()), MIB) == TEXT * 3


def test_raw_snappy_is_read_as_librdkafka_writes_it() -> None:
    assert decompress(Codec.SNAPPY, bytes(cramjam.snappy.compress_raw(TEXT)), len(TEXT)) == TEXT


def test_gzip_of_another_writer_is_read() -> None:
    assert decompress(Codec.GZIP, gzip.compress(TEXT), len(TEXT)) == TEXT


@pytest.mark.parametrize("codec", COMPRESSING)
def test_damage_is_a_protocol_error(codec: Codec) -> None:
    data = compress(codec, TEXT)
    for damaged in (b"", b"nonsense, not compressed at all", data[:-1], data[: len(data) // 2]):
        with pytest.raises(ProtocolError):
            decompress(codec, damaged, len(TEXT))


@pytest.mark.parametrize(
    "data",
    [
        XERIAL_HEADER[:12],
        XERIAL_HEADER + b"\0\0",
        XERIAL_HEADER + pack(">i", -1),
        XERIAL_HEADER + pack(">i", 0),
        XERIAL_HEADER + pack(">i", 2**31 - 1) + b"abc",
        XERIAL_HEADER + pack(">i", 3) + b"\xff\xff\xff",
        b"\xff\xff\xff\xff\x0f" + bytes(10),  # 4 GiB claimed by ten bytes
    ],
)
def test_snappy_lengths_are_not_believed(data: bytes) -> None:
    with pytest.raises(ProtocolError):
        decompress(Codec.SNAPPY, data, 100 * MIB)


def test_a_snappy_block_may_not_claim_more_than_snappy_can_do() -> None:
    with pytest.raises(ProtocolError, match="claimed"):
        decompress(Codec.SNAPPY, b"\x80\x80\x80\x08" + bytes(10), 100 * MIB)  # 16 MiB of ten bytes


def test_codecs_have_numbers_and_names() -> None:
    assert [Codec.of(number) for number in range(5)] == list(Codec)
    assert Codec.named("producer") is None
    assert Codec.named("uncompressed") is Codec.NONE
    assert Codec.named("lz4") is Codec.LZ4
    for number in (-1, 5, 6, 7):
        with pytest.raises(ProtocolError):
            Codec.of(number)


def gzip_bomb() -> bytes:
    """1 MB that inflates to 1 GiB: one flushed block of zeros, again and again."""
    compressor = zlib.compressobj(9, zlib.DEFLATED, 31)
    head = compressor.compress(bytes(MIB)) + compressor.flush(zlib.Z_FULL_FLUSH)
    return head + (compressor.compress(bytes(MIB)) + compressor.flush(zlib.Z_FULL_FLUSH)) * 1023


def zstd_bomb() -> bytes:
    """32 KB that inflate to 1 GiB: blocks that repeat one byte."""
    block = (128 * KIB << 3 | 1 << 1).to_bytes(3, "little") + b"\0"
    return b"\x28\xb5\x2f\xfd\x00\x38" + block * 8192


def lz4_bomb() -> bytes:
    """4 MB that inflate to 1 GiB: one independent block of zeros, again and again."""
    frame = compress(Codec.LZ4, bytes(64 * KIB))
    return frame[:7] + frame[7:-8] * 16384 + frame[-8:]


def snappy_bomb() -> bytes:
    """6 MB that inflate to 128 MiB, the worst that snappy can do."""
    return XERIAL_HEADER + compress(Codec.SNAPPY, bytes(32 * KIB))[len(XERIAL_HEADER) :] * 4096


def peak_kib() -> int:
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM"))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="peak memory is read from Linux's /proc")
@pytest.mark.parametrize(
    ("codec", "make"),
    [(Codec.GZIP, gzip_bomb), (Codec.SNAPPY, snappy_bomb), (Codec.LZ4, lz4_bomb), (Codec.ZSTD, zstd_bomb)],
)
def test_a_bomb_costs_the_limit_and_no_more(codec: Codec, make: Callable[[], bytes]) -> None:
    bomb, limit = make(), 8 * MIB
    Path("/proc/self/clear_refs").write_text("5")  # the peak starts anew
    before = peak_kib()
    with pytest.raises(ProtocolError):
        decompress(codec, bomb, limit)
    assert peak_kib() - before < (limit + 6 * MIB) // KIB
