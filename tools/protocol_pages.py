"""The protocol as pages: which APIs are served in which versions, and which errors a client may get."""

import ast
import re
from collections import defaultdict
from pathlib import Path

from hightide.error_codes import REFRESHES_METADATA, RETRIABLE, ErrorCode
from hightide.node.apis import ADVERTISED_FROM, BROKER_APIS, Api
from hightide.wire.versions import API_NAMES
from tools.markdown import code, page, table

ROOT = Path(__file__).parent.parent
HANDLERS = ROOT / "hightide" / "node" / "handlers"
BROKER_PACKAGES = ("metadata", "node", "storage", "wire")
NOT_ANSWERS = {ErrorCode.NONE}

API_PREFACE = """\
ApiVersions answers with exactly this table: what is not in it is not served, and a request for it ends the connection.
The versions are those of Apache Kafka 4.3."""

API_APPENDIX = """\
Produce is advertised from version 0, as Kafka does: librdkafka turns features off otherwise. Its versions 0-2 are not
served all the same.

## Not served

These APIs of Kafka 4.3 are known to the codec (`hightide/wire/messages/`) and not served by this version: {missing}."""

ERROR_PREFACE = """\
The codes of Apache Kafka 4.3 that the broker's own code names. *Retry* says whether the same request may succeed later,
*refresh* whether a client should ask for new metadata first; clients know both. Every other code of Kafka's is known to
our client (`hightide/error_codes.py`), which may meet it at another broker."""


def api_page() -> str:
    """docs/reference/apis.md"""
    rows = [
        (key, API_NAMES[key], _versions(api), code(f"handlers/{api.module}.py"), contract(api)[1])
        for key, api in BROKER_APIS.items()
    ]
    missing = ", ".join(f"{name} ({key})" for key, name in API_NAMES.items() if key not in BROKER_APIS)
    return page(
        "APIs",
        "`hightide/node/apis.py` and the docstrings of `hightide/node/handlers/`",
        API_PREFACE,
        table(["key", "API", "versions", "module", "what it does"], rows),
        API_APPENDIX.format(missing=missing),
    )


def contract(api: Api) -> tuple[str, str]:
    """What the first line of a handler says: its name, key and versions; and what it is for."""
    documentation = ast.get_docstring(ast.parse((HANDLERS / f"{api.module}.py").read_text())) or ""
    head, _, purpose = documentation.partition("\n\n")[0].replace("\n", " ").partition(": ")
    return head, purpose.rstrip(".")


def expected_head(api: Api) -> str:
    """What it must say, so that a reader of the module is not misled."""
    plural = "version" if api.first == api.last else "versions"
    return f"{API_NAMES[api.key]} ({api.key}), {plural} {_range(api.first, api.last)}"


def error_page() -> str:
    """docs/reference/errors.md"""
    rows = [
        (int(error), code(error.name), _yes(error in RETRIABLE), _yes(error in REFRESHES_METADATA), ", ".join(modules))
        for error, modules in sorted(_named_errors().items())
    ]
    return page(
        "Error codes",
        "`hightide/error_codes.py` and the modules that name each code",
        ERROR_PREFACE,
        table(["code", "name", "retry", "refresh", "named in"], rows),
    )


def _named_errors() -> dict[ErrorCode, list[str]]:
    found: dict[ErrorCode, list[str]] = defaultdict(list)
    for package in BROKER_PACKAGES:
        for path in sorted((ROOT / "hightide" / package).rglob("*.py")):
            names = {
                node.attr
                for node in ast.walk(ast.parse(path.read_text()))
                if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "ErrorCode"
            }
            for error in {ErrorCode[name] for name in names} - NOT_ANSWERS:
                found[error].append(code(re.sub(r"\.py$", "", str(path.relative_to(ROOT / "hightide")))))
    return found


def _versions(api: Api) -> str:
    served = _range(api.first, api.last)
    advertised = ADVERTISED_FROM.get(api.key, api.first)
    return served if advertised == api.first else f"{served} (advertised from {advertised})"


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


def _yes(value: bool) -> str:
    return "yes" if value else ""
