"""Kafka's own Java client and command-line tools, in one long-lived JVM (java/ClientDriver.java)."""

from __future__ import annotations

import base64
import hashlib
import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.conformance.clients.message import Message, Received, Sent
from tools import java_tools

SOURCE = Path(__file__).resolve().parent.parent / "java" / "ClientDriver.java"


class ToolResult(NamedTuple):
    code: int
    output: bytes
    errors: str

    @property
    def text(self) -> str:
        return self.output.decode()


class JavaDriver:
    """The JVM: one JSON command a line, one JSON answer a line."""

    def __init__(self) -> None:
        compiled = _compile()
        command = java_tools.java_command("ClientDriver")
        command[command.index("-cp") + 1] += f":{compiled}"
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )

    def ask(self, **command: Any) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(command) + "\n")
        self._process.stdin.flush()
        answer = json.loads(self._process.stdout.readline())
        assert "failure" not in answer, answer["failure"]
        return answer

    def tool(self, name: str, *arguments: str, given: bytes = b"") -> ToolResult:
        """Run one of Kafka's command-line tools by the class its script names."""
        answer = self.ask(
            do="tool",
            **{"class": java_tools.tool_class(name)},
            arguments=arguments,
            input=base64.b64encode(given).decode(),
        )
        return ToolResult(answer["code"], base64.b64decode(answer["output"]), answer["errors"])

    def close(self) -> None:
        self._process.communicate(timeout=10)


def _compile() -> Path:
    folder = java_tools.CACHE / f"driver-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"
    if not (folder / "ClientDriver.class").exists():
        command = ["javac", "-cp", f"{java_tools.jars()}/*", "-d", str(folder), str(SOURCE)]
        done = subprocess.run(command, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
    return folder


class JavaClient:
    name = "java"

    def __init__(self, bootstrap: str, driver: JavaDriver) -> None:
        self.bootstrap = bootstrap
        self._driver = driver

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
        config = {
            "bootstrap.servers": self.bootstrap,
            "compression.type": codec,
            "acks": acks,
            "max.request.size": "20000000",
            **{name: str(value) for name, value in (settings or {}).items()},
        }
        records = [
            {
                "key": _base64(message.key),
                "value": _base64(message.value),
                "timestamp": message.timestamp,
                "headers": [[name, _base64(value)] for name, value in message.headers],
            }
            for message in messages
        ]
        answer = self._driver.ask(do="produce", topic=topic, partition=partition, config=config, records=records)
        return [Sent(result.get("offset", -1), result.get("error", 0)) for result in answer["results"]]

    def consume(self, topic: str, count: int, *, partition: int = 0, offset: int = 0) -> list[Received]:
        answer = self._driver.ask(
            do="consume", topic=topic, partition=partition, count=count, offset=offset, config=self._consumer_config()
        )
        return [
            Received(
                record["offset"],
                _bytes(record["value"]),
                _bytes(record["key"]),
                tuple((name, _bytes(value)) for name, value in record["headers"]),
                record["timestamp"],
                record["timestamp_type"],
            )
            for record in answer["records"]
        ]

    def offset_for_time(self, topic: str, timestamp: int, *, partition: int = 0) -> int | None:
        config = self._consumer_config()
        answer = self._driver.ask(
            do="offset_for_time", topic=topic, partition=partition, timestamp=timestamp, config=config
        )
        offset: int | None = answer["offset"]
        return offset

    def _consumer_config(self) -> dict[str, str]:
        return {
            "bootstrap.servers": self.bootstrap,
            "enable.auto.commit": "false",
            "auto.offset.reset": "none",
            "fetch.max.wait.ms": "100",
        }


def _base64(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else base64.b64decode(text)
