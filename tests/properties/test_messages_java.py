"""Our bytes are Kafka's bytes: every message and log record in every version, read and written by Kafka's classes.

For the records of the logs this is the only oracle, and it alone keeps the tagged fields that it does not know.
"""

import hashlib
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings

from codegen import schema
from hightide.wire.message import Message
from tests.properties.messages import SUBJECTS, Subject, full_sample, wide
from tools import java_tools

SOURCE = Path(__file__).parent / "java" / "MessageOracle.java"
LOGS = {"group_log": "group", "transaction_log": "transaction", "share_log": "share"}

Oracle = Callable[[str, int, bytes], str]

pytestmark = pytest.mark.java


def _java_class(subject: Subject) -> str:
    """Kafka's name of the class."""
    name = subject.schema.name
    if subject.module in LOGS:
        return f"org.apache.kafka.coordinator.{LOGS[subject.module]}.generated.{name}"
    if subject.module == "metadata_log":
        return f"org.apache.kafka.common.metadata.{name}"
    if subject.module == "quorum_state":
        return f"org.apache.kafka.raft.generated.{name}"
    return f"org.apache.kafka.common.message.{name}{'' if subject.schema.kind == 'data' else 'Data'}"


@pytest.fixture(scope="module")
def oracle() -> Iterator[Oracle]:
    """A question to the JVM: (class, version, bytes) -> the bytes that Kafka writes, in hex."""
    try:
        command = java_tools.java_command("MessageOracle")
    except java_tools.JavaMissingError as error:
        pytest.skip(str(error))
    command[command.index("-cp") + 1] += f":{_compile()}"
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None
    assert process.stdout is not None
    questions, answers = process.stdin, process.stdout

    def ask(java_class: str, version: int, encoded: bytes) -> str:
        questions.write(f"{java_class} {version} {encoded.hex()}\n")
        questions.flush()
        return answers.readline().rstrip("\n")

    yield ask
    process.communicate(timeout=10)


def _compile() -> Path:
    folder = java_tools.CACHE / f"oracle-{hashlib.sha256(SOURCE.read_bytes()).hexdigest()[:12]}"
    if not (folder / "MessageOracle.class").exists():
        subprocess.run(["javac", "-cp", f"{java_tools.jars()}/*", "-d", str(folder), str(SOURCE)], check=True)
    return folder


@pytest.mark.parametrize(
    "subject", [subject for subject in SUBJECTS if (subject.schema.number or 0) < schema.OWN_FROM], ids=str
)
def test_kafka_reads_and_writes_the_same_bytes(subject: Subject, oracle: Oracle) -> None:
    for version in subject.versions:
        _compare(subject, version, oracle)


def _compare(subject: Subject, version: int, oracle: Oracle) -> None:
    java_class = _java_class(subject)

    @settings(max_examples=4, deadline=None)
    @given(message=wide(subject, version))
    @example(message=full_sample(subject, version))
    @example(message=subject.message_class())
    def check(message: Message) -> None:
        encoded = message.encode(version)
        assert oracle(java_class, version, encoded) == encoded.hex()

    check()
