"""Standard input as lines."""

import asyncio
import os
from pathlib import Path

import pytest

from hightide.cli import lines
from hightide.cli.failures import CommandError


def read_pipe(*chunks: bytes) -> list[bytes]:
    async def work() -> list[bytes]:
        reading, writing = os.pipe()
        found: list[bytes] = []
        try:
            for chunk in chunks:
                os.write(writing, chunk)
            os.close(writing)
            async for some in lines.read_lines(reading):
                found += some
        finally:
            os.close(reading)
        return found

    return asyncio.run(work())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (b"", []),
        (b"a", [b"a"]),
        (b"a\n", [b"a"]),
        (b"a\nb", [b"a", b"b"]),
        (b"\n\n", [b"", b""]),
        (b"a\r\nb\n", [b"a\r", b"b"]),
    ],
)
@pytest.mark.parametrize("chunk_bytes", [1, 2, 1000])
def test_lines(text: bytes, expected: list[bytes], chunk_bytes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "CHUNK_BYTES", chunk_bytes)
    assert read_pipe(text) == expected


def test_a_regular_file(tmp_path: Path) -> None:
    file = tmp_path / "input"
    file.write_bytes(b"a\nb\n")

    async def work() -> list[bytes]:
        with open(file, "rb") as opened:
            return [line async for some in lines.read_lines(opened.fileno()) for line in some]

    assert asyncio.run(work()) == [b"a", b"b"]


def test_a_line_without_an_end_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "FRAME_BYTES_MAX", 10)
    with pytest.raises(CommandError, match="a line of more than 10 bytes"):
        read_pipe(bytes(11))
