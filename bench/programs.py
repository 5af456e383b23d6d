"""What the bench needs that is not Python: its C programs, compiled when their source is newer, and librdkafka."""

import ctypes.util
import importlib.util
import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent
BUILT = SOURCES.parent / ".bench"
SHORT_QUEUE, LONG_QUEUE = 30_000, 200_000
"""Messages that may wait in librdkafka. Few stay in the caches; many fill batches where brokers wait for each other."""
RUN_SECONDS_MAX = 180  # of a program that takes seconds: whatever it waits for does not come


class FailedError(Exception):
    """A run went wrong in a way that makes all figures worthless, such as an acknowledged record that is not there."""


class MissingError(Exception):
    """Something the bench needs is not on this machine; the message says what and where to get it."""


def client_allocator() -> str | None:
    """The library that gives librdkafka its memory: tcmalloc where it is installed, else the C library's own (None).

    A message is made by one thread and freed by another, which the C library's allocator does at twice the cost.
    """
    return ctypes.util.find_library("tcmalloc_minimal")


def build(name: str) -> Path:
    """The compiled program of bench/<name>.c."""
    allocator = client_allocator() if name.startswith("rdkafka_") else None
    source, program = SOURCES / f"{name}.c", BUILT / (f"{name}-tcmalloc" if allocator else name)
    newest = max(part.stat().st_mtime for part in (source, *SOURCES.glob("*.h")))
    if program.exists() and program.stat().st_mtime > newest:
        return program
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        raise MissingError(
            "The bench's senders are written in C and this machine has no C compiler: "
            "on Debian, 'apt-get install gcc libc6-dev' brings one."
        )
    BUILT.mkdir(exist_ok=True)
    command = [compiler, "-O2", "-Wall", "-pthread", "-o", str(program), str(source), "-ldl"]
    if allocator is not None:
        command += ["-Wl,--no-as-needed", f"-l:{allocator}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise MissingError(f"{source.name} does not compile with {compiler}:\n{done.stderr}")
    return program


def librdkafka() -> str:
    """The shared library to drive: the one inside confluent-kafka's wheel, else the system's."""
    package = importlib.util.find_spec("confluent_kafka")
    if package is not None and package.origin is not None:
        bundled = Path(package.origin).parent.with_name("confluent_kafka.libs")
        for library in sorted(bundled.glob("librdkafka*.so*")):
            return str(library)
    system = ctypes.util.find_library("rdkafka")
    if system is None:
        raise MissingError(
            "The bench drives librdkafka, which is neither in this environment nor on the system: 'make setup' "
            "installs confluent-kafka, whose wheel contains it; on Debian, 'apt-get install librdkafka1' does too."
        )
    return system


def run_program(*arguments: object) -> dict[str, Any]:
    """Run a program that prints one JSON object."""
    program = Path(str(arguments[0])).name
    try:
        done = subprocess.run(
            [str(argument) for argument in arguments],
            capture_output=True, text=True, check=False, timeout=RUN_SECONDS_MAX,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        raise FailedError(f"{program} is not done after {RUN_SECONDS_MAX} s") from None
    if done.returncode:
        raise FailedError(f"{program} failed: {done.stderr.strip()}")
    result: dict[str, Any] = json.loads(done.stdout)
    return result
