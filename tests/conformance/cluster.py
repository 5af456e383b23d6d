"""The broker under test: a hightide started for the session, or any cluster that is already running.

HIGHTIDE_CONFORMANCE_BOOTSTRAP=host:port points the whole suite at a running cluster, hightide or Kafka; that is how the
tests themselves are proven: each passes on Apache Kafka (`python tools/java_tools.py kafka`). Give the folder with its
logs in HIGHTIDE_CONFORMANCE_DATA_DIR to include the tests that read files.
"""

from __future__ import annotations

import itertools
import os
import re
import secrets
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from kio.schema.errors import ErrorCode

from tests.conformance.clients.message import Client
from tests.conformance.raw_connection import API_KEYS, Connection
from tests.conformance.record_batches import Batch, read_batches

ROOT = Path(__file__).resolve().parent.parent.parent
START_SECONDS = 20.0
NAMES = itertools.count()
RUN = secrets.token_hex(3)

PROPERTIES = """\
node.id=1
listeners=PLAINTEXT://127.0.0.1:{port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
log.dirs={directory}/data
"""


class Cluster:
    """Where the broker is, and the few things that every test needs of it, said over a raw connection."""

    def __init__(self, bootstrap: str, data_dir: Path | None = None) -> None:
        self.bootstrap = bootstrap
        self.data_dir = data_dir
        with self.connect() as connection:
            answer = connection.ask("api_versions", 0)
        self.versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def connect(self, timeout_seconds: float = 15.0) -> Connection:
        return Connection(self.bootstrap, timeout_seconds)

    def serves(self, api: str) -> bool:
        return API_KEYS[api] in self.versions

    def codec_sent(self, client: Client, codec: str) -> str:
        """The codec that a client really uses: librdkafka gives up lz4 where FindCoordinator is not advertised."""
        is_librdkafka = client.name in ("confluent-kafka", "kcat")
        return "none" if codec == "lz4" and is_librdkafka and not self.serves("find_coordinator") else codec

    def ask(self, api: str, version: int, **fields: Any) -> Any:
        with self.connect() as connection:
            return connection.ask(api, version, **fields)

    def metadata(self, *topics: str, auto_create: bool = False) -> Any:
        """Metadata of the named topics; the brokers are always in it."""
        return self.ask(
            "metadata",
            12,
            topics=[{"name": name, "topic_id": None} for name in topics],
            allow_auto_topic_creation=auto_create,
            include_topic_authorized_operations=False,
        )

    def describe_topic(self, name: str) -> Any:
        return self.metadata(name).topics[0]

    def create_topic(self, partitions: int = 1, **settings: object) -> str:
        """A new topic whose leaders already answer; settings with underscores for dots."""
        name = new_name()
        configs = [{"name": key.replace("_", "."), "value": str(value)} for key, value in settings.items()]
        topic = {
            "name": name,
            "num_partitions": partitions,
            "replication_factor": 1,
            "assignments": [],
            "configs": configs,
        }
        answer = self.ask("create_topics", 7, topics=[topic], timeout=10_000, validate_only=False)
        assert answer.topics[0].error_code == ErrorCode.none, answer.topics[0]
        self.wait_for_leaders(name, partitions)
        return name

    def wait_for_leaders(self, topic: str, partitions: int = 1) -> None:
        deadline = time.monotonic() + 10
        while any(self.offset_error(topic, partition) != ErrorCode.none for partition in range(partitions)):
            assert time.monotonic() < deadline, f"{topic} has no leaders"
            time.sleep(0.02)

    def offset_error(self, topic: str, partition: int) -> Any:
        return self._list_offset(topic, partition, -2).error_code

    def end_offset(self, topic: str, partition: int = 0) -> int:
        return self.list_offset(topic, -1, partition)

    def list_offset(self, topic: str, timestamp: int, partition: int = 0) -> int:
        answer = self._list_offset(topic, partition, timestamp)
        assert answer.error_code == ErrorCode.none, answer
        return int(answer.offset)

    def _list_offset(self, topic: str, partition: int, timestamp: int) -> Any:
        partitions = [{"partition_index": partition, "timestamp": timestamp, "current_leader_epoch": -1}]
        topics = [{"name": topic, "partitions": partitions}]
        answer = self.ask("list_offsets", 7, replica_id=-1, isolation_level=0, topics=topics)
        return answer.topics[0].partitions[0]

    def batches(self, topic: str, partition: int = 0) -> list[Batch]:
        """The headers of every batch in a partition, as they stand in the log."""
        found: list[Batch] = []
        offset, end = self.list_offset(topic, -2, partition), self.end_offset(topic, partition)
        with self.connect() as connection:
            while offset < end:
                answer = connection.ask("fetch", 12, **fetch_fields(topic, partition, offset))
                result = answer.responses[0].partitions[0]
                assert result.error_code == ErrorCode.none, result
                got = read_batches(result.records)
                found += got
                offset = got[-1].base_offset + got[-1].last_offset_delta + 1
        return found


def settles(question: Callable[[], object], expected: object) -> None:
    """Wait until the answer is the expected one: a broker learns of a change a moment after the controller made it."""
    deadline = time.monotonic() + 5
    while (answer := question()) != expected and time.monotonic() < deadline:
        time.sleep(0.02)
    assert answer == expected


def fetch_fields(topic: str, partition: int, offset: int, **changes: object) -> dict[str, Any]:
    """A sessionless Fetch (up to version 12) of one partition; `changes` are fields of the request."""
    fields: dict[str, Any] = {
        "max_wait": 500,
        "min_bytes": 1,
        "max_bytes": 50_000_000,
        "isolation_level": 0,
        "session_id": 0,
        "session_epoch": -1,
        "topics": [
            {"topic": topic, "partitions": [fetch_partition(partition, offset)]},
        ],
        "forgotten_topics_data": [],
        "rack_id": "",
    }
    return {**fields, **changes}


def fetch_partition(partition: int, offset: int, max_bytes: int = 50_000_000) -> dict[str, Any]:
    return {"partition": partition, "fetch_offset": offset, "partition_max_bytes": max_bytes}


def produce_fields(topic: str, records: bytes | None, partition: int = 0, acks: int = -1) -> dict[str, Any]:
    """A Produce request (up to version 12) with the given bytes for one partition."""
    data = [{"name": topic, "partition_data": [{"index": partition, "records": records}]}]
    return {"transactional_id": None, "acks": acks, "timeout": 10_000, "topic_data": data}


def new_name(prefix: str = "conformance") -> str:
    return f"{prefix}-{RUN}-{os.getpid()}-{next(NAMES)}"


class HightideProcess:
    """`hightide server` as a user starts it, on a free port, with its data and its log under one folder."""

    def __init__(self, directory: Path, **settings: object) -> None:
        self.data_dir = directory / "data"
        self._log = directory / "server.log"
        port = _free_port()
        self.bootstrap = f"127.0.0.1:{port}"
        properties = directory / "server.properties"
        lines = "".join(f"{name.replace('_', '.')}={value}\n" for name, value in settings.items())
        properties.write_text(PROPERTIES.format(port=port, directory=directory) + lines)
        command = [sys.executable, "-m", "hightide", "server", "--config", str(properties)]
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log, cwd=ROOT)
        self._wait_until_ready()

    def _wait_until_ready(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            assert self._process.poll() is None, f"hightide ended at start:\n{self._log.read_text()}"
            try:
                Cluster(self.bootstrap)
                return
            except OSError:
                assert time.monotonic() < deadline, f"hightide did not open its port:\n{self._log.read_text()}"
                time.sleep(0.02)

    def stop(self) -> None:
        """Stop it as an operator would; it must have survived all tests without an unhandled exception."""
        ended_early = self._process.poll()
        self._process.terminate()
        code = self._process.wait(30)
        log = self._log.read_text(errors="replace")
        assert ended_early is None, f"hightide died during the tests with {ended_early}:\n{log[-5000:]}"
        assert not re.search(r"^Traceback|exception was never retrieved", log, re.MULTILINE), log[-5000:]
        assert code == 0, f"a clean stop ended with {code}:\n{log[-5000:]}"


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
