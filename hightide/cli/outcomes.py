"""The end of a command on several things: what was done to each, and a failure when something was not."""

from hightide.cli.failures import failure_of, report
from hightide.cli.output import Format, Table, show
from hightide.client.admin import Outcomes


def conclude(output: Format, noun: str, done: str, outcomes: Outcomes) -> None:
    """Print what was done; exit with a failure when something was not."""
    show(
        output,
        document=[
            {"name": name, "result": done if error is None else "failed", "error": error and error.code.name}
            for name, error in outcomes.items()
        ],
        names=[name for name, error in outcomes.items() if error is None],
        tables=lambda: [
            Table(
                [noun.upper(), "RESULT"],
                [[name, done if error is None else error.code.name] for name, error in outcomes.items()],
            )
        ],
    )
    failures = [failure_of(error, f"{noun} {name}") for name, error in outcomes.items() if error is not None]
    for failure in failures[:-1]:
        report(failure)
    if failures:
        raise failures[-1]
