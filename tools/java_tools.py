"""Apache Kafka's own jars: fetched once with Maven, run as command-line tools or as a whole broker.

The conformance tests use them as clients and as readers of our files. The `kafka` command starts a real Kafka, which is
how a doubtful behaviour is asked and how the conformance suite itself is proven right:

    python tools/java_tools.py jars                      # fetch the jars into .cache/java
    python tools/java_tools.py kafka --port 19092        # a one-node Kafka in the foreground, with fresh data
    python tools/java_tools.py tool TopicCommand --list --bootstrap-server 127.0.0.1:9092
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
POM = ROOT / "tests" / "conformance" / "java" / "pom.xml"
CACHE = ROOT / ".cache" / "java"

QUIET_LOGGING = """\
status = error
rootLogger.level = warn
rootLogger.appenderRef.err.ref = err
appender.err.type = Console
appender.err.name = err
appender.err.target = SYSTEM_ERR
appender.err.layout.type = PatternLayout
appender.err.layout.pattern = %d %p %c: %m%n
"""

KAFKA_PROPERTIES = """\
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:{controller_port}
listeners=PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}
advertised.listeners=PLAINTEXT://127.0.0.1:{port}
controller.listener.names=CONTROLLER
log.dirs={directory}/data
offsets.topic.replication.factor=1
transaction.state.log.replication.factor=1
transaction.state.log.min.isr=1
share.coordinator.state.topic.replication.factor=1
share.coordinator.state.topic.min.isr=1
group.initial.rebalance.delay.ms=0
"""


class JavaMissingError(Exception):
    """Java, Maven or the jars cannot be had; the message says which and what to do."""


def jars() -> Path:
    """The folder with every jar, fetched when the pom changed since the last time."""
    for command, package in (("javac", "default-jdk-headless"), ("mvn", "maven")):
        if shutil.which(command) is None:
            raise JavaMissingError(f"`{command}` is not installed; on Debian: apt-get install {package}")
    folder = CACHE / f"jars-{hashlib.sha256(POM.read_bytes()).hexdigest()[:12]}"
    if not folder.exists():
        _fetch(folder)
    return folder


def _fetch(folder: Path) -> None:
    # Maven copies into a folder of this process and a rename publishes it, so that two runs at once do not mix.
    partial = folder.with_name(f"{folder.name}.{os.getpid()}")
    arguments = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", f"-DoutputDirectory={partial}"]
    done = subprocess.run(arguments, capture_output=True, text=True, cwd=POM.parent)
    if done.returncode != 0:
        shutil.rmtree(partial, ignore_errors=True)
        raise JavaMissingError(f"Maven could not fetch Kafka's jars:\n{(done.stdout + done.stderr)[-2000:]}")
    try:
        partial.rename(folder)
    except OSError:
        shutil.rmtree(partial)


def java_command(*arguments: str, heap: str = "256m") -> list[str]:
    """The command line that runs `arguments` with Kafka's jars on the class path, logging warnings to stderr."""
    folder = jars()
    logging = CACHE / "log4j2.properties"
    if not logging.exists() or logging.read_text() != QUIET_LOGGING:
        logging.write_text(QUIET_LOGGING)
    flags = [f"-Xmx{heap}", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", f"-Dlog4j2.configurationFile={logging}"]
    return ["java", *flags, "-cp", f"{folder}/*", *arguments]


def tool_class(name: str) -> str:
    """The full class name of one of Kafka's tools, given as in its own scripts (`TopicCommand`)."""
    return name if "." in name else f"org.apache.kafka.tools.{name}"


def format_kafka(directory: Path, port: int, extra: list[str]) -> Path:
    """Write a fresh one-node configuration under `directory`, format its storage, and return the properties file."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    properties = directory / "server.properties"
    settings = KAFKA_PROPERTIES.format(port=port, controller_port=port + 1, directory=directory)
    properties.write_text(settings + "".join(f"{line}\n" for line in extra))
    format_storage = java_command(
        "kafka.tools.StorageTool", "format", "-t", "AAAAAAAAAAAAAAAAAAAAAQ", "-c", str(properties)
    )
    subprocess.run(format_storage, check=True, stdout=subprocess.DEVNULL)
    return properties


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("jars", help="fetch the jars and print their folder")
    kafka = commands.add_parser("kafka", help="run a real one-node Kafka in the foreground")
    kafka.add_argument("--port", type=int, default=19092)
    kafka.add_argument("--dir", type=Path, default=ROOT / ".cache" / "kafka")
    kafka.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a broker setting")
    tool = commands.add_parser("tool", help="run one of Kafka's tools, e.g. TopicCommand")
    tool.add_argument("name")
    tool.add_argument("arguments", nargs=argparse.REMAINDER)
    options = parser.parse_args()
    try:
        if options.command == "jars":
            print(jars())
            return
        if options.command == "tool":
            command = java_command(tool_class(options.name), *options.arguments)
        else:
            properties = format_kafka(options.dir, options.port, options.set)
            command = java_command("kafka.Kafka", str(properties), heap="512m")
    except JavaMissingError as error:
        sys.exit(str(error))
    os.execvp(command[0], command)  # this process becomes Java, so that signals reach it


if __name__ == "__main__":
    main()
