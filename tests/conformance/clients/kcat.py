"""kcat: librdkafka on the command line, in the version that Debian ships."""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.conformance.clients.message import Header, Message, Received, Sent

# kcat prints librdkafka's sentence, not the code.
ERROR_CODES = {"Message size too large": 10, "Unknown topic or partition": 3, "Not enough in-sync replicas": 19}


class KcatClient:
    name = "kcat"

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    def produce(
        self,
        topic: str,
        messages: Sequence[Message],
        *,
        partition: int = 0,
        codec: str = "none",
        acks: str = "all",
        settings: Mapping[str, object] | None = None,
    ) -> list[Sent]:
        options = {"message.max.bytes": 20_000_000, "acks": acks, "linger.ms": 0, **(settings or {})}
        flags = ["-P", "-t", topic, "-p", str(partition), "-z", codec]
        for name, value in options.items():
            flags += ["-X", f"{name}={value}"]
        return [self._produce_one(flags, message) for message in messages]

    def _produce_one(self, flags: list[str], message: Message) -> Sent:
        assert message.timestamp is None, "kcat cannot set a timestamp"
        flags = flags + [flag for name, value in message.headers for flag in ("-H", _header_text(name, value))]
        if message.value:
            done = self._produce_file(flags, message.key, message.value)
        else:
            # kcat overlooks an empty file; a line with nothing behind its key delimiter is empty, or null with -Z.
            assert message.key is not None
            empty = [] if message.value is not None else ["-Z"]
            done = self.run(*flags, *empty, "-K", "|", given=message.key + b"|\n")
        for sentence, code in ERROR_CODES.items():
            if sentence in done.stderr.decode():
                return Sent(-1, code)
        assert done.returncode == 0, done.stderr.decode()
        return Sent(-1)

    def _produce_file(self, flags: list[str], key: bytes | None, value: bytes) -> subprocess.CompletedProcess[bytes]:
        """A file is one message, whatever bytes it holds."""
        keyed = [] if key is None else ["-k", key.decode()]
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "value"
            file.write_bytes(value)
            return self.run(*flags, *keyed, str(file))

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        # Lengths come before bytes, so any content can be told apart; -1 is a null.
        form = "%o %T %K %S %h\n%k%s"
        flags = ["-C", "-t", topic, "-p", str(partition), "-o", str(offset), "-c", str(count), "-f", form, "-q"]
        done = self.run(*flags, "-X", "auto.offset.reset=error")
        assert done.returncode == 0, done.stderr.decode()
        return _parse(done.stdout)

    def offset_for_time(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        done = self.run("-Q", "-t", f"{topic}:{partition}:{timestamp}")
        assert done.returncode == 0, done.stderr.decode()
        offset = int(done.stdout.decode().rsplit(" ", 1)[1])
        return None if offset < 0 else offset

    def run(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = ["kcat", "-b", self.bootstrap, *arguments]
        return subprocess.run(command, input=given, capture_output=True, timeout=30)


def _header_text(name: str, value: bytes | None) -> str:
    return name if value is None else f"{name}={value.decode()}"


def _parse(output: bytes) -> list[Received]:
    received: list[Received] = []
    while output:
        line, output = output.split(b"\n", 1)
        offset, timestamp, key_size, value_size, headers = line.decode().split(" ", 4)
        parts: list[bytes | None] = []
        for size in (int(key_size), int(value_size)):
            parts.append(None if size < 0 else output[:size])
            output = output[max(size, 0) :]
        key, value = parts
        received.append(Received(int(offset), value, key, _parse_headers(headers), int(timestamp), None))
    return received


def _parse_headers(text: str) -> tuple[Header, ...]:
    parsed: list[Header] = []
    for part in filter(None, text.split(",")):
        name, value = part.split("=", 1)
        parsed.append((name, None if value == "NULL" else value.encode()))
    return tuple(parsed)
