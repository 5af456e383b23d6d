"""Writes every generated page of docs/: run by `make docs`; `tests/tidy` checks that the pages are fresh."""

import sys
from pathlib import Path

from tools import mission

ROOT = Path(__file__).parent.parent


def pages() -> dict[Path, str]:
    """Path to text of every generated page."""
    return {mission.PAGE: mission.render()}


def stale() -> list[str]:
    """The generated pages that differ from what is on disk."""
    return [
        str(path.relative_to(ROOT)) for path, text in pages().items() if not path.exists() or path.read_text() != text
    ]


def main() -> int:
    """Write them all."""
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
