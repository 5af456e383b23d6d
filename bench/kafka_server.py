"""Apache Kafka 4.3.1 for the comparison: its jars from Maven, one or three KRaft brokers on loopback.

Brokers run as Kafka's own scripts run them: heap, garbage collector and the rest of the flags are those of
kafka-server-start.sh and kafka-run-class.sh, settings are Kafka's defaults. What is set beside addresses and
directories: internal topics that fit one broker, as in the configuration file Kafka ships, and that deleted files go at
once, so that no run pays for the one before it. The jars lie in the cache folder that the conformance tests use,
outside version control; the first run fetches them.

    python -m bench.kafka_server [--brokers 3]      # Kafka in the foreground, until Ctrl-C
"""

import argparse
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path

from bench.clusters import Cluster, Server, free_ports, write_properties
from bench.programs import FailedError, MissingError
from tools.java_tools import JavaMissingError, jars

NAME = "Kafka"
VERSION = "4.3.1"
CLUSTER_ID = "AAAAAAAAAAAAAAAAAAAAAQ"
FLUSH_EVERY_APPEND = {"flush.messages": "1"}

HEAP_FLAGS = ("-Xmx1G", "-Xms1G")
PERFORMANCE_FLAGS = (
    "-server", "-XX:+UseG1GC", "-XX:MaxGCPauseMillis=20", "-XX:InitiatingHeapOccupancyPercent=35",
    "-XX:+ExplicitGCInvokesConcurrent", "-Djava.awt.headless=true",
)  # fmt: skip
MONITORING_FLAGS = (
    "-Dcom.sun.management.jmxremote=true",
    "-Dcom.sun.management.jmxremote.authenticate=false",
    "-Dcom.sun.management.jmxremote.ssl=false",
)

LOGGING = """\
status = error
rootLogger.level = info
rootLogger.appenderRef.out.ref = out
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = [%d] %p %m (%c)%n
"""


def kafka_cluster(directory: Path, brokers: int, settings: Mapping[str, str]) -> Cluster:
    """A cluster whose storage is formatted and that was not started yet, on a fresh directory."""
    folder = kafka_jars()
    shutil.rmtree(directory, ignore_errors=True)
    all_ports = free_ports(2 * brokers)
    ports, controller_ports = all_ports[:brokers], all_ports[brokers:]
    voters = ",".join(f"{node_id}@127.0.0.1:{port}" for node_id, port in enumerate(controller_ports, 1))
    internal = str(min(brokers, 3))
    shared = {
        "process.roles": "broker,controller",
        "controller.quorum.voters": voters,
        "controller.listener.names": "CONTROLLER",
        "offsets.topic.replication.factor": internal,
        "transaction.state.log.replication.factor": internal,
        "transaction.state.log.min.isr": str(max(1, brokers - 1)),
        "share.coordinator.state.topic.replication.factor": internal,
        "share.coordinator.state.topic.min.isr": str(max(1, brokers - 1)),
        **settings,
    }
    servers = []
    for node_id, (port, controller_port) in enumerate(zip(ports, controller_ports, strict=True), 1):
        place = directory / f"node-{node_id}"
        place.mkdir(parents=True)
        own = {
            "node.id": str(node_id),
            "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
            "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
            "log.dirs": str(place / "data"),
        }
        write_properties(place / "server.properties", own | shared)
        (place / "log4j2.properties").write_text(LOGGING)
        _format(folder, place)
        command = server_command(folder, place)
        servers.append(Server(node_id, port, place, command, _environment()))
    return Cluster(NAME, directory, servers, {}, FLUSH_EVERY_APPEND)


def kafka_jars() -> Path:
    """The folder with Kafka's jars, fetched when it is not there; MissingError says what this machine lacks."""
    try:
        return jars()
    except JavaMissingError as error:
        raise MissingError(
            f"The comparison runs Apache Kafka {VERSION}, which comes from Maven and needs Java 17: {error}"
        ) from None


def server_command(folder: Path, place: Path) -> list[str]:
    """What kafka-server-start.sh executes in the end."""
    garbage_log = f"-Xlog:gc*:file={place}/kafkaServer-gc.log:time,tags:filecount=10,filesize=100M"
    logging = (f"-Dkafka.logs.dir={place}", f"-Dlog4j2.configurationFile={place}/log4j2.properties")
    flags = (*HEAP_FLAGS, *PERFORMANCE_FLAGS, garbage_log, *MONITORING_FLAGS, *logging)
    return ["java", *flags, "-cp", f"{folder}/*", "kafka.Kafka", str(place / "server.properties")]


def tool_command(folder: Path, main_class: str, *arguments: str) -> list[str]:
    """One of Kafka's command-line tools, with the flags its script gives it (a heap of 512 MiB for the producer)."""
    quiet = folder.parent / "log4j2.properties"
    logging = [f"-Dlog4j2.configurationFile={quiet}"] if quiet.exists() else []
    return ["java", "-Xmx512M", *PERFORMANCE_FLAGS, *logging, "-cp", f"{folder}/*", main_class, *arguments]


def _format(folder: Path, place: Path) -> None:
    flags = ["-Xmx256M", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    arguments = ["format", "-t", CLUSTER_ID, "-c", str(place / "server.properties")]
    done = subprocess.run(
        ["java", *flags, "-cp", f"{folder}/*", "kafka.tools.StorageTool", *arguments],
        capture_output=True, text=True, env=_environment(), check=False,
    )  # fmt: skip
    if done.returncode:
        raise FailedError(f"Kafka's storage can't be formatted:\n{(done.stdout + done.stderr)[-1000:]}")


def _environment() -> dict[str, str]:
    """Ours without what changes the JVM or Kafka's scripts."""
    unwanted = ("KAFKA_", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS")
    return {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}


def main() -> None:
    """Kafka in the foreground, for a look by hand."""
    parser = argparse.ArgumentParser(description="Run Apache Kafka as the bench does, until Ctrl-C.")
    parser.add_argument("--brokers", type=int, choices=(1, 3), default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as place, kafka_cluster(Path(place) / "kafka", options.brokers, {}) as cluster:
        cluster.launch()
        print(f"Kafka {VERSION} on {cluster.bootstrap}", flush=True)
        try:
            while cluster.alive:
                time.sleep(1.0)
        except KeyboardInterrupt:
            cluster.stop()


if __name__ == "__main__":
    main()
