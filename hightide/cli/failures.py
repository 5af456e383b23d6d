"""What the command says when something goes wrong: one sentence, a hint where there is one, and an exit code."""

import sys
from enum import IntEnum

from hightide.errors import ApiError, ErrorCode


class ExitCode(IntEnum):
    """For scripts. Documented in docs/reference/cli.md and in `hightide --help`."""

    DONE = 0
    FAILED = 1
    USAGE = 2
    NOT_FOUND = 3
    UNREACHABLE = 4
    NOT_CONFIRMED = 5
    INTERRUPTED = 130


class CommandError(Exception):
    """A sentence for people, an exit code for scripts."""

    def __init__(self, sentence: str, code: ExitCode = ExitCode.FAILED, hint: str | None = None) -> None:
        super().__init__(sentence)
        self.sentence = sentence
        self.code = code
        self.hint = hint


_NOT_FOUND = (
    ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    ErrorCode.UNKNOWN_TOPIC_ID,
    ErrorCode.RESOURCE_NOT_FOUND,
    ErrorCode.GROUP_ID_NOT_FOUND,
)
_UNREACHABLE = (ErrorCode.BROKER_NOT_AVAILABLE, ErrorCode.NETWORK_EXCEPTION, ErrorCode.REQUEST_TIMED_OUT)
_START_HINT = "is a broker running there? `hightide up` starts one; -b or HIGHTIDE_BOOTSTRAP names another address"


def failure_of(error: ApiError, about: str = "") -> CommandError:
    """A broker's or the client's error, said to people."""
    code, hint = ExitCode.FAILED, None
    if error.code in _NOT_FOUND:
        code = ExitCode.NOT_FOUND
    elif error.code in _UNREACHABLE:
        code, hint = ExitCode.UNREACHABLE, _START_HINT
    detail = error.message or error.code.name.replace("_", " ").lower()
    sentence = f"{about}: {detail}" if about else detail
    return CommandError(f"{sentence} ({error.code.name})", code, hint)


def unknown_topic(name: str, existing: list[str]) -> CommandError:
    """There is no such topic; which one may have been meant."""
    from difflib import get_close_matches

    near = get_close_matches(name, existing, n=1, cutoff=0.5)
    hint = f"did you mean {near[0]!r}?" if near else "`hightide topic list` shows what there is"
    return CommandError(f"there is no topic {name!r}", ExitCode.NOT_FOUND, hint)


def report(failure: CommandError) -> int:
    """Say it on standard error; returns the exit code."""
    print(f"hightide: {failure.sentence}", file=sys.stderr)
    if failure.hint:
        print(f"  {failure.hint}", file=sys.stderr)
    return int(failure.code)
