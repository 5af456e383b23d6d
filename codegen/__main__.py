"""`python -m codegen` writes the generated files; `python -m codegen --check` fails when they are not fresh."""

import sys
from pathlib import Path

from codegen import errors, modules, schema, settings, tables

PACKAGE = Path(__file__).parent.parent / "hightide"
MESSAGES = PACKAGE / "wire" / "messages"
MESSAGES_TITLE = '"""The generated messages: one module per API, one per log. Import a module, never this package."""\n'


def render() -> dict[Path, str]:
    """Every generated file with its text."""
    groups = schema.load()
    files = {MESSAGES / f"{name}.py": text for name, text in modules.render_modules(groups).items()}
    files[MESSAGES / "__init__.py"] = MESSAGES_TITLE
    files[PACKAGE / "wire" / "versions.py"] = tables.render_versions(groups)
    files[PACKAGE / "error_codes.py"] = errors.render()
    files[PACKAGE / "metadata" / "settings" / "catalogue.py"] = settings.render()
    return files


def stale(files: dict[Path, str]) -> list[Path]:
    """The files that are missing, differ, or are no longer generated."""
    changed = [path for path, text in files.items() if not path.exists() or path.read_text() != text]
    return sorted(changed + [path for path in MESSAGES.glob("*.py") if path not in files])


def main() -> int:
    """The exit code: 1 when a check finds a stale file."""
    files = render()
    if "--check" in sys.argv[1:]:
        for path in stale(files):
            print(f"stale: {path.relative_to(PACKAGE.parent)}; run `make codegen`", file=sys.stderr)
        return 1 if stale(files) else 0
    for path in stale(files):
        if path in files:
            path.write_text(files[path])
        else:
            path.unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main())
