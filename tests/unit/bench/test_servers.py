"""The launchers: what they write and execute, and what they say when something is missing."""

import ctypes.util
import shutil
import subprocess
from pathlib import Path

import pytest

from bench import programs
from bench.hightide_server import hightide_cluster
from bench.kafka_server import kafka_jars, server_command
from bench.programs import MissingError
from hightide.node.configuration_text import parse_properties


@pytest.mark.parametrize("allocator", [None, ctypes.util.find_library("tcmalloc_minimal")])
def test_clients_are_built_with_and_without_an_allocator_of_their_own(
    allocator: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(programs, "BUILT", tmp_path)
    monkeypatch.setattr(programs, "client_allocator", lambda: allocator)
    program = programs.build("rdkafka_producer")
    loaded = subprocess.run(["ldd", str(program)], capture_output=True, text=True, check=True).stdout
    assert ("tcmalloc" in loaded) == (allocator is not None)
    assert "tcmalloc" not in programs.build("request_sender").name


@pytest.mark.parametrize(("missing", "package"), [("mvn", "maven"), ("javac", "jdk")])
def test_what_is_missing_for_kafka_is_named(missing: str, package: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "which", lambda command: None if command == missing else f"/usr/bin/{command}")
    with pytest.raises(MissingError, match=rf"Apache Kafka 4\.3\.1.*`{missing}` is not installed.*{package}"):
        kafka_jars()


def test_kafka_runs_with_the_flags_of_its_own_scripts() -> None:
    command = server_command(Path("jars"), Path("place"))
    assert {"-Xmx1G", "-Xms1G", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20"} < set(command)
    assert command[-4:] == ["-cp", "jars/*", "kafka.Kafka", "place/server.properties"]


def test_three_servers_know_one_quorum_and_have_places_of_their_own(tmp_path: Path) -> None:
    cluster = hightide_cluster(tmp_path / "three", 3, {"log.segment.delete.delay.ms": "200"})
    files = [parse_properties((server.directory / "server.properties").read_text()) for server in cluster.servers]
    assert [file["node.id"] for file in files] == ["1", "2", "3"]
    assert len({file["controller.quorum.voters"] for file in files}) == 1
    assert len({file["hightide.cluster.id"] for file in files}) == 1
    assert len({file["log.dirs"] for file in files}) == 3
    assert {file["log.segment.delete.delay.ms"] for file in files} == {"200"}
    assert cluster.bootstrap == ",".join(server.address for server in cluster.servers)


def test_durability_is_a_setting_of_the_topic(tmp_path: Path) -> None:
    cluster = hightide_cluster(tmp_path / "one", 1, {})
    assert cluster.topic_settings("page cache") == {"hightide.durability": "replicated"}
    assert cluster.topic_settings("fsync") == {"hightide.durability": "fsync"}
