"""What differs between the versions of one structure, as branches on `version`.

A structure is a list of steps in wire order. Each step is the same lines of Python over some range of versions;
neighbouring steps that change at the same versions share one branch, and steps that never change have none.
"""

from collections.abc import Iterable, Sequence

Lines = tuple[str, ...]
Step = dict[int, Lines]  # for every version of the structure, the lines that read or write this step

INDENT = "    "
WIDTH = 116


def branches(steps: Iterable[Step]) -> list[str]:
    """The body of a function that takes the steps one after the other."""
    body: list[str] = []
    for step in _merge(steps):
        starts = _starts(step)
        if len(starts) == 1:
            body.extend(step[starts[0]])
        else:
            body.extend(_branch(step, starts))
    return body


def _merge(steps: Iterable[Step]) -> list[Step]:
    merged: list[Step] = []
    for step in steps:
        if not any(step.values()):
            continue
        if merged and _starts(merged[-1]) == _starts(step):
            last = merged[-1]
            merged[-1] = {version: last[version] + step[version] for version in step}
        else:
            merged.append(step)
    return merged


def _starts(step: Step) -> list[int]:
    """The versions at which the lines change, the first version included, rising."""
    versions = sorted(step)
    return [
        version for index, version in enumerate(versions) if index == 0 or step[version] != step[versions[index - 1]]
    ]


def _branch(step: Step, starts: Sequence[int]) -> list[str]:
    lines: list[str] = []
    word = "if"
    for start in reversed(starts):
        body = step[start]
        if start == starts[0]:
            if not body:
                break
            lines.append("else:")
        else:
            lines.append(f"{word} version >= {start}:")
        lines.extend(INDENT + line for line in body or ("pass",))
        word = "elif"
    return lines


def spread(before: str, items: Sequence[str], after: str, depth: int = 3) -> Lines:
    """`before` + items + `after` on one line, or as many as it takes."""
    whole = before + ", ".join(items) + after
    if len(whole) + depth * len(INDENT) <= WIDTH:
        return (whole,)
    return (before, *(f"{INDENT}{item}," for item in items), after)
