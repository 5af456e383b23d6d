"""K20: an assertion or an unhandled exception in any log. A traceback is one finding, named by its last line."""

import re
from collections import defaultdict, deque

from hightide.sim.history.findings import Finding
from hightide.sim.history.operations import LogLine
from hightide.sim.history.recorder import History

_TRACEBACK = "Traceback (most recent call last)"
_ALARM = re.compile(
    r"AssertionError|Assertion failed|[Uu]nhandled exception|Exception (in callback|ignored (in|while))"
    r"|was never (retrieved|awaited)|Task was destroyed but it is pending|Fatal Python error|Segmentation fault"
)
_GROUP_MARGIN = "  | "  # before the lines of an exception group's traceback


def check(history: History) -> list[Finding]:
    lines: defaultdict[str, deque[LogLine]] = defaultdict(deque)
    for line in history.log_lines:
        lines[line.process].append(line)
    findings = []
    for process, written in lines.items():
        while written:
            line = written.popleft()
            if _TRACEBACK in line.text:
                findings.append(_finding(process, line, _exception(written)))
            elif _ALARM.search(line.text):
                findings.append(_finding(process, line, line))
    return findings


def _exception(following: deque[LogLine]) -> LogLine | None:
    """The line that ends a traceback, None when the log ends within it; takes the traceback's lines away."""
    while following:
        line = following.popleft()
        if not line.text.removeprefix(_GROUP_MARGIN).startswith((" ", "\t")):
            return line
    return None


def _finding(process: str, first: LogLine, last: LogLine | None) -> Finding:
    what = "a traceback that was cut off" if last is None else last.text.removeprefix(_GROUP_MARGIN)
    shown = (first,) if last is None or last is first else (first, last)
    return Finding("K20", f"{process} line {first.number}", what, shown)
