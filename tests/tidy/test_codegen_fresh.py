"""The generated code is what the generator writes from the facts today."""

from pathlib import Path

from codegen.__main__ import render, stale


def test_generated_files_are_fresh() -> None:
    assert stale(render()) == [], "run `make codegen`"


def test_a_stale_and_a_missing_file_are_found(tmp_path: Path) -> None:
    files = {tmp_path / "stale.py": "new", tmp_path / "missing.py": "new", tmp_path / "fresh.py": "new"}
    (tmp_path / "stale.py").write_text("old")
    (tmp_path / "fresh.py").write_text("new")
    assert set(stale(files)) >= {tmp_path / "stale.py", tmp_path / "missing.py"}
    assert tmp_path / "fresh.py" not in stale(files)
