"""The `hightide` command as people run it: real processes, a real broker started by `hightide up`."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from hightide.cli.failures import ExitCode
from hightide.client.partitioner import partition_for_key

pytestmark = [pytest.mark.xdist_group("cli"), pytest.mark.timeout(120)]

COMMAND = [sys.executable, "-m", "hightide"]


class Up:
    """A running `hightide up -o json`."""

    def __init__(self, directory: Path, *options: str) -> None:
        command = [*COMMAND, "up", "--dir", str(directory), "-o", "json", *options]
        self.directory = directory
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        self.ready: dict[str, Any] = json.loads(line)
        self.bootstrap: str = self.ready["bootstrap"]

    def run(self, *arguments: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        """One command against this cluster."""
        environment = {**os.environ, "HIGHTIDE_BOOTSTRAP": self.bootstrap}
        return subprocess.run([*COMMAND, *arguments], input=given, capture_output=True, env=environment, check=False)

    def done(self, *arguments: str, given: bytes = b"") -> str:
        """What a command that must succeed prints."""
        done = self.run(*arguments, given=given)
        assert done.returncode == ExitCode.DONE, done.stderr.decode()
        return done.stdout.decode()

    def document(self, *arguments: str) -> Any:
        """The same as JSON."""
        return json.loads(self.done(*arguments, "-o", "json"))

    def stop(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        """End it; exit code and what it said."""
        self.process.send_signal(number)
        _, said = self.process.communicate(timeout=60)
        return self.process.returncode, said


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    running = Up(tmp_path_factory.mktemp("up"), "--port", "0", "--set", "hightide.profile=dev")
    yield running
    running.stop()


def failed(done: subprocess.CompletedProcess[bytes], code: ExitCode, *words: str) -> None:
    """A command that says why, in a sentence, and exits with that code."""
    said = done.stderr.decode()
    assert done.returncode == code, said
    assert "Traceback" not in said
    for word in words:
        assert word in said


def test_up_says_where_everything_is(up: Up) -> None:
    (node,) = up.ready["nodes"]
    assert up.ready == {
        "bootstrap": node["address"],
        "nodes": [
            {
                "id": 1,
                "roles": ["broker", "controller"],
                "address": up.bootstrap,
                "pid": node["pid"],
                "data_dir": str(up.directory / "node-1" / "data"),
            }
        ],
    }
    os.kill(node["pid"], 0)
    assert "node.id=1" in (up.directory / "node-1" / "server.properties").read_text()


def test_the_life_of_a_topic(up: Up) -> None:
    assert up.done("topic", "create", "life", "-p", "2", "--set", "retention.ms=3600000", "-o", "name") == "life\n"
    failed(up.run("topic", "create", "life"), ExitCode.FAILED, "already exists", "TOPIC_ALREADY_EXISTS")
    assert up.done("topic", "create", "life", "--if-not-exists", "-o", "name") == "life\n"
    assert "life" in up.done("topic", "list", "-o", "name").splitlines()
    assert up.document("topic", "alter", "life", "-p", "3", "--set", "segment.bytes=2000000", "--unset", "retention.ms")
    (described,) = up.document("topic", "describe", "life")
    assert described["settings"] == {"segment.bytes": "2000000"}
    assert [partition["partition"] for partition in described["partitions"]] == [0, 1, 2]
    assert {partition["leader"] for partition in described["partitions"]} == {1}
    assert len({partition["partition_cluster_id"] for partition in described["partitions"]}) == 3
    listed = {topic["name"]: topic for topic in up.document("topic", "list")}
    assert (listed["life"]["partitions"], listed["life"]["id"]) == (3, described["id"])

    up.done("produce", "life", "a", "b")
    plan = up.run("topic", "delete", "life", "-o", "json")
    failed(plan, ExitCode.NOT_CONFIRMED, "nothing was deleted", "--yes")
    assert json.loads(plan.stdout)["delete"][0]["records"] == 2
    assert "life" in up.done("topic", "list", "-o", "name").splitlines()
    up.done("topic", "delete", "life", "--yes")
    failed(up.run("topic", "describe", "life"), ExitCode.NOT_FOUND, "there is no topic 'life'")


def test_a_refused_change_changes_nothing(up: Up) -> None:
    up.done("topic", "create", "refused", "-p", "2")
    refused = up.run("topic", "alter", "refused", "--set", "segment.bytes=2000000", "-p", "1")
    failed(refused, ExitCode.FAILED, "INVALID_PARTITIONS")
    (described,) = up.document("topic", "describe", "refused")
    assert described["settings"] == {}
    failed(up.run("topic", "alter", "refused", "--set", "no.such=1"), ExitCode.FAILED, "no.such", "INVALID_CONFIG")
    failed(up.run("topic", "create", "too-many", "-r", "3"), ExitCode.FAILED, "INVALID_REPLICATION_FACTOR")


def test_unknown_topics_are_not_found_and_the_nearest_is_named(up: Up) -> None:
    up.done("topic", "create", "customers")
    for command in (["topic", "describe"], ["topic", "delete", "--yes"], ["consume"], ["config", "show", "--topic"]):
        failed(up.run(*command, "custmers"), ExitCode.NOT_FOUND, "did you mean 'customers'?")


def test_records_go_in_and_come_out(up: Up) -> None:
    up.done("topic", "create", "records", "-p", "3")
    lines = b"".join(b"key-%d:value-%d\n" % (number, number) for number in range(20))
    sent = up.run("produce", "records", "-K", ":", "-H", "source=test", "-z", "lz4", "-o", "json", given=lines)
    assert json.loads(sent.stdout)["records"] == 20
    printed = up.done("consume", "records", "-f", r"%p %k %v %h %K %V\n").splitlines()
    expected = [
        f"{partition_for_key(b'key-%d' % number, 3)} key-{number} value-{number} source=test "
        f"{len(f'key-{number}')} {len(f'value-{number}')}"
        for number in range(20)
    ]
    assert sorted(printed) == sorted(expected)


def test_empty_null_and_binary(up: Up) -> None:
    up.done("topic", "create", "kinds")
    up.done("produce", "kinds", "", "-k", "key")
    up.done("produce", "kinds", "", "-k", "key", "-Z")
    up.done("produce", "kinds", given=b"\xff\xfe\n")
    records = [json.loads(line) for line in up.done("consume", "kinds", "-o", "json").splitlines()]
    assert [record.get("value") for record in records] == ["", None, None]
    assert records[2]["value_base64"] == "//4="
    assert up.run("consume", "kinds", "--offsets", "2").stdout == b"\xff\xfe\n"


def test_consume_reads_ranges_and_ends(up: Up) -> None:
    up.done("topic", "create", "ranges")
    up.done("produce", "ranges", *map(str, range(10)))
    assert up.done("consume", "ranges", "--offsets", "3:6").split() == ["3", "4", "5"]
    assert up.done("consume", "ranges", "--offsets", "-2").split() == ["8", "9"]
    assert up.done("consume", "ranges", "--offsets", "@-1h:end", "-n", "4").split() == ["0", "1", "2", "3"]
    assert up.done("consume", "ranges", "--offsets", "@now:end") == ""
    assert up.done("consume", "ranges", "--offsets", "7:", "-n", "3", "-o", "name").split() == [
        f"ranges-0@{offset}" for offset in (7, 8, 9)
    ]
    failed(up.run("consume", "ranges", "--offsets", "99:"), ExitCode.FAILED, "offsets 0 to 10, not 99")
    failed(up.run("consume", "ranges", "-p", "5"), ExitCode.NOT_FOUND, "partitions 0 to 0, not 5")


def test_follow_shows_what_comes_until_it_is_interrupted(up: Up) -> None:
    up.done("topic", "create", "followed")
    command = [*COMMAND, "consume", "followed", "--follow", "-b", up.bootstrap]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as following:
        assert following.stdout is not None
        for value in ("one", "two"):
            up.done("produce", "followed", value)
            assert following.stdout.readline().decode() == f"{value}\n"
        following.send_signal(signal.SIGINT)
        _, said = following.communicate(timeout=30)
    assert following.returncode == ExitCode.INTERRUPTED
    assert said == b"hightide: interrupted\n"


def test_a_reader_that_has_seen_enough_is_no_failure(up: Up) -> None:
    up.done("topic", "create", "pipe")
    up.done("produce", "pipe", given=b"".join(b"%01000d\n" % number for number in range(2000)))
    pipe = f"{' '.join(COMMAND)} consume pipe -b {up.bootstrap} | head -n 1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(["bash", "-c", pipe], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
    assert done.stdout == b"0" * 1000 + b"\n"


def test_a_producer_creates_its_topic_and_says_so(up: Up) -> None:
    done = up.run("produce", "by-itself", "hello")
    assert done.returncode == ExitCode.DONE
    assert "did not exist: the broker created it" in done.stderr.decode()
    assert up.done("consume", "by-itself") == "hello\n"


@pytest.mark.parametrize("acks", ["all", "1", "0"])
def test_every_kind_of_acknowledgement(up: Up, acks: str) -> None:
    up.done("topic", "create", f"acks-{acks}")
    up.done("produce", f"acks-{acks}", "a", "b", "--acks", acks)
    assert up.done("consume", f"acks-{acks}", "--offsets", "0:", "-n", "2") == "a\nb\n"


def test_a_record_that_is_too_large(up: Up) -> None:
    up.done("topic", "create", "small", "--set", "max.message.bytes=1000")
    failed(
        up.run("produce", "small", given=bytes(2000)), ExitCode.FAILED, "1 records were not kept", "MESSAGE_TOO_LARGE"
    )


def test_the_cluster(up: Up) -> None:
    described = up.document("cluster", "describe")
    (broker,) = described["brokers"]
    assert (broker["id"], broker["address"], broker["controller"]) == (1, up.bootstrap, True)
    assert broker["log_bytes"] is not None
    status = up.document("cluster", "status")
    assert status["healthy"] is True
    assert status["cluster_id"] == described["cluster_id"]
    assert [broker["address"] for broker in status["brokers"]] == [up.bootstrap]
    (controller,) = status["controllers"]
    assert (controller["id"], controller["role"], controller["lag"]) == (1, "leader", 0)
    assert {(each["topic"], each["partition"]) for each in status["replicas"]} == {
        (each["topic"], each["partition"]) for each in up.document("cluster", "replicas")
    }
    assert up.done("cluster", "status", "-o", "name") == "healthy\n"
    assert {"brokers", "controllers", "replicas"} <= set(up.done("cluster", "status").splitlines())


def test_settings_of_a_running_cluster(up: Up) -> None:
    up.done("topic", "create", "settings", "--set", "retention.ms=1234567")
    shown = up.document("config", "show", "retention.ms", "segment.bytes", "--topic", "settings", "--origin")
    assert shown == [
        {"name": "retention.ms", "value": "1234567", "origin": "dynamic topic config"},
        {"name": "segment.bytes", "value": "1073741824", "origin": "default config"},
    ]
    assert up.document("config", "show", "node.id", "--broker", "1") == {"node.id": "1"}
    failed(up.run("config", "show", "--broker", "9"), ExitCode.NOT_FOUND, "there is no broker 9")
    failed(up.run("config", "show", "node.di"), ExitCode.NOT_FOUND, "did you mean 'node.id'?")


@pytest.mark.covers("T11")
def test_settings_of_a_start_and_their_origin(tmp_path: Path) -> None:
    file = tmp_path / "server.toml"
    file.write_text('"num.partitions" = 3\n"log.retention.hours" = 5\n')
    environment = {**os.environ, "HIGHTIDE_LOG_RETENTION_HOURS": "7"}
    command = [*COMMAND, "config", "show", "--config", str(file), "--set", "node.id=4", "--origin", "--changed"]
    done = subprocess.run([*command, "-o", "json"], capture_output=True, env=environment, check=True)
    assert {entry["name"]: (entry["value"], entry["origin"]) for entry in json.loads(done.stdout)} == {
        "log.retention.hours": ("7", "HIGHTIDE_LOG_RETENTION_HOURS"),
        "node.id": ("4", "flag node.id"),
        "num.partitions": ("3", str(file)),
    }


def test_the_metadata_log(up: Up) -> None:
    up.done("topic", "create", "dumped", "-p", "2", "--set", "retention.ms=5")
    topic_id = up.document("topic", "describe", "dumped")[0]["id"]
    entries = up.document("metadata", "dump", str(up.directory))
    assert [entry["offset"] for entry in entries] == list(range(len(entries)))
    assert entries[0]["type"] == "LeaderChangeMessage"
    created = next(entry for entry in entries if entry["data"].get("name") == "dumped")
    assert (created["type"], created["data"]["topic_id"]) == ("TopicRecord", topic_id)
    partitions = [
        entry for entry in entries if entry["type"] == "PartitionRecord" and entry["data"]["topic_id"] == topic_id
    ]
    assert [entry["data"]["partition_id"] for entry in partitions] == [0, 1]
    only = up.document("metadata", "dump", str(up.directory / "node-1" / "data"), "--type", "ConfigRecord")
    assert {entry["type"] for entry in only} == {"ConfigRecord"}
    failed(up.run("metadata", "dump", "/nowhere"), ExitCode.NOT_FOUND, "no metadata log in /nowhere")


def test_a_damaged_metadata_log_is_shown_up_to_the_damage(up: Up, tmp_path: Path) -> None:
    (segment,) = (up.directory / "node-1" / "data" / "__cluster_metadata-0").glob("*.log")
    damaged = tmp_path / segment.name
    content = bytearray(segment.read_bytes())
    content[-1] ^= 1
    damaged.write_bytes(content)
    done = up.run("metadata", "dump", str(damaged), "-o", "json")
    failed(done, ExitCode.FAILED, "fails its CRC")
    assert len(json.loads(done.stdout)) > 1


def test_up_stops_cleanly_and_resumes_on_its_port(tmp_path: Path) -> None:
    first = Up(tmp_path, "--port", str(free_port()))
    first.done("produce", "kept", "before")
    assert first.stop(signal.SIGINT)[0] == ExitCode.DONE
    assert not alive(first.ready["nodes"][0]["pid"])
    second = Up(tmp_path)
    assert second.bootstrap == first.bootstrap
    assert second.done("consume", "kept") == "before\n"
    code, said = second.stop()
    assert (code, "resuming node 1" in said) == (ExitCode.DONE, True)
    moved = Up(tmp_path, "--port", str(free_port()))
    assert moved.bootstrap != first.bootstrap
    assert moved.done("consume", "kept") == "before\n"
    moved.stop()


def test_up_never_restarts_a_dead_node(tmp_path: Path) -> None:
    running = Up(tmp_path, "--port", "0")
    running.done("produce", "kept", "acknowledged")
    os.kill(running.ready["nodes"][0]["pid"], signal.SIGKILL)
    _, said = running.process.communicate(timeout=30)
    assert running.process.returncode == ExitCode.FAILED
    config = tmp_path / "node-1" / "server.properties"
    assert "node 1 ended with status -9" in said
    assert f"hightide server --config {config} starts it again" in said
    failed(running.run("topic", "list"), ExitCode.UNREACHABLE, "no broker answers", "connection refused")
    again = Up(tmp_path)
    assert again.done("consume", "kept") == "acknowledged\n"
    again.stop()


def test_up_on_a_port_that_is_taken(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        command = [*COMMAND, "up", "--dir", str(tmp_path / "d"), "--port", port]
        done = subprocess.run(command, capture_output=True, check=False)
    failed(done, ExitCode.FAILED, f"port {port} on 127.0.0.1 is taken", "--port")


def test_up_with_settings_that_are_wrong(tmp_path: Path) -> None:
    command = [*COMMAND, "up", "--dir", str(tmp_path), "--port", "0", "--set", "num.partition=1"]
    done = subprocess.run(command, capture_output=True, check=False)
    failed(done, ExitCode.FAILED, "node 1 ended with status 2", "did you mean 'num.partitions'?")


def test_up_in_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = subprocess.run([*COMMAND, "up", "--dir", str(tmp_path / "file" / "d")], capture_output=True, check=False)
    failed(done, ExitCode.FAILED, "Not a directory")


def test_a_server_runs_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "server.properties"
    file.write_text(f"node.id=7\nlisteners=PLAINTEXT://127.0.0.1:0\nlog.dirs={tmp_path}/data\n")
    command = [*COMMAND, "server", "--config", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        assert line.startswith("hightide node 7 is ready on 127.0.0.1:")
        address = line.split()[-1]
        done = subprocess.run(
            [*COMMAND, "cluster", "describe", "-o", "name", "-b", address], capture_output=True, check=True
        )
        assert done.stdout == b"7\n"
        server.send_signal(signal.SIGINT)
        server.communicate(timeout=30)
    assert server.returncode == ExitCode.DONE


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        return int(listening.getsockname()[1])


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True
