"""Writes every generated page of docs/: run by `make docs`; `tests/tidy` checks that the pages are fresh."""

import sys
from pathlib import Path

from tools import mission
from tools.command_page import command_page
from tools.mutation_page import mutations_page
from tools.protocol_pages import api_page, error_page
from tools.settings_pages import broker_page, topic_page
from tools.source_pages import limits_page, rules_page

ROOT = Path(__file__).parent.parent
REFERENCE = ROOT / "docs" / "reference"


def pages() -> dict[Path, str]:
    """Path to text of every generated page."""
    return {
        mission.PAGE: mission.render(),
        REFERENCE / "apis.md": api_page(),
        REFERENCE / "broker-settings.md": broker_page(),
        REFERENCE / "cli.md": command_page(),
        REFERENCE / "errors.md": error_page(),
        REFERENCE / "limits.md": limits_page(),
        REFERENCE / "mutations.md": mutations_page(),
        REFERENCE / "rules.md": rules_page(),
        REFERENCE / "topic-settings.md": topic_page(),
    }


def stale() -> list[str]:
    """The generated pages that differ from what is on disk, and pages in their folder that nobody generates."""
    generated = pages()
    wrong = [path for path, text in generated.items() if not path.exists() or path.read_text() != text]
    orphans = set(REFERENCE.glob("*.md")) - generated.keys()
    return sorted(str(path.relative_to(ROOT)) for path in [*wrong, *orphans])


def main() -> int:
    """Write them all."""
    for path, text in pages().items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        print(f"wrote {path.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
