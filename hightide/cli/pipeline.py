"""`hightide pipeline …`: jobs on Spark: compare all replicas, keep a lakehouse table in step with topics."""

import re
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hightide import spark as spark_package
from hightide.cli.failures import CommandError, ExitCode, failure_of
from hightide.cli.options import BOOTSTRAP_DEFAULT, Bootstrap, Output
from hightide.cli.output import Format, Table, say, show
from hightide.cli.server import split_setting
from hightide.errors import ApiError
from hightide.spark.lake_columns import ValueFormat
from hightide.spark.tables import TableError, TableFormat

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from hightide.spark.auditing import AuditReport, Finding, ReplicaReport
    from hightide.spark.lake import Committed

application = typer.Typer(no_args_is_help=True, help="Jobs on Spark: audit replicas, fill lakehouse tables.")

PROGRESS_SECONDS = 0.5
QUIET = "spark.driver.extraJavaOptions"
LOG_SETTINGS = Path(spark_package.__file__).parent / "log4j2.properties"
_SIZES = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def add_to(parent: typer.Typer) -> None:
    """Make it part of the command line."""
    parent.add_typer(application, name="pipeline")


Master = Annotated[
    str, typer.Option("--master", metavar="URL", help="Where Spark runs: local[*], spark://host:7077, …")
]
SparkSettings = Annotated[
    list[str] | None, typer.Option("--conf", metavar="KEY=VALUE", help="A setting of Spark's own; repeatable.")
]
MASTER_DEFAULT = "local[*]"


@application.command("audit")
def audit(
    topics: Annotated[list[str] | None, typer.Argument(metavar="[TOPIC…]", help="Topics by name; all without.")] = None,
    full_hash: Annotated[
        bool, typer.Option("--full-hash", help="Compare a digest of all bytes too, not length, epoch and CRC alone.")
    ] = False,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    master: Master = MASTER_DEFAULT,
    conf: SparkSettings = None,
    output: Output = Format.TABLE,
) -> None:
    """Compare every replica of every partition, batch by batch. Ends with 1 when something is wrong.

    Everything below the leader's high watermark must be the same with everybody in sync; replicas that lag are compared
    up to their own high watermark and listed as lagging.
    """
    with _spark(master, conf, "hightide audit") as spark:
        from hightide.spark.auditing import run_audit

        try:
            with _task_progress(spark, "comparing replicas"):
                report = run_audit(spark, bootstrap, topics or None, full_hash=full_hash)
        except ApiError as error:
            raise failure_of(error) from None
    _show_audit(output, report)
    wrong = sum(len(replica.findings) for replica in report.replicas) + len(report.leaderless)
    if wrong:
        raise CommandError(f"{wrong} finding{'s' if wrong > 1 else ''}: replicas are not what they should be")
    size = sum(replica.bytes for replica in report.replicas)
    say(f"{len(report.replicas)} replicas, {size} bytes: all that must be the same is the same")


def _show_audit(output: Format, report: "AuditReport") -> None:
    flawed = [replica for replica in report.replicas if replica.findings]
    show(
        output,
        document={
            "clean": report.is_clean,
            "replicas": [_replica_document(replica) for replica in report.replicas],
            "leaderless": [str(where) for where in report.leaderless],
        },
        names=[f"{replica.topic}-{replica.partition} on {replica.broker}" for replica in flawed],
        tables=lambda: [_audit_table(report)],
    )


def _replica_document(replica: "ReplicaReport") -> dict[str, object]:
    return {
        **replica._asdict(),
        "role": str(replica.role),
        "findings": [{**finding._asdict(), "kind": str(finding.kind)} for finding in replica.findings],
        "passed": [{**finding._asdict(), "kind": str(finding.kind)} for finding in replica.passed],
        "unreachable": replica.unreachable or None,
    }


def _audit_table(report: "AuditReport") -> Table:
    rows: list[list[object]] = [
        [
            replica.topic,
            replica.partition,
            replica.broker,
            replica.role,
            replica.start if replica.start >= 0 else None,
            replica.bound,
            replica.batches,
            replica.bytes,
            _verdict(replica),
        ]
        for replica in report.replicas
    ]
    rows += [[*where, *[None] * 6, "has no leader to compare with"] for where in report.leaderless]
    return Table(["TOPIC", "PARTITION", "BROKER", "ROLE", "FROM", "TO", "BATCHES", "BYTES", "RESULT"], rows)


def _verdict(replica: "ReplicaReport") -> str:
    if replica.findings:
        return _said(replica.findings)
    if replica.unreachable:
        return f"not reached: {replica.unreachable}"
    return f"same; at first {_said(replica.passed)}" if replica.passed else "same"


def _said(findings: "Sequence[Finding]") -> str:
    return "; ".join(
        f"{finding.units} {finding.kind} in {finding.first_offset}:{finding.end_offset}"
        + (f" ({finding.detail})" if finding.detail else "")
        for finding in findings
    )


@application.command("lake")
def lake(
    topics: Annotated[list[str], typer.Argument(metavar="TOPIC…", help="Topics by name.")],
    to: Annotated[
        str, typer.Option("--to", metavar="PATH|NAMESPACE.TABLE", help="The table: a path, for Iceberg its name.")
    ],
    form: Annotated[TableFormat, typer.Option("--format", help="What the table is kept as.")] = TableFormat.DELTA,
    catalog: Annotated[
        list[str] | None,
        typer.Option("--catalog", metavar="KEY=VALUE", help="A property of Iceberg's catalog; repeatable."),
    ] = None,
    value_format: Annotated[ValueFormat, typer.Option("--value-format", help="What values are.")] = ValueFormat.BINARY,
    schema: Annotated[
        str | None,
        typer.Option(
            "--schema", metavar="DDL|@FILE", help="JSON fields that become columns: 'id bigint, at timestamp'."
        ),
    ] = None,
    trigger: Annotated[
        str, typer.Option("--trigger", metavar="available-now|10s", help="Catch up and end, or look again for ever.")
    ] = "available-now",
    compact_to: Annotated[
        str | None, typer.Option("--compact-to", metavar="SIZE", help="Merge small files to about this size: 128MB.")
    ] = None,
    checkpoint: Annotated[
        str | None,
        typer.Option("--checkpoint", metavar="PATH", help="Where Spark notes its progress."),
    ] = None,
    options: Annotated[
        list[str] | None, typer.Option("--option", metavar="KEY=VALUE", help="An option of the source; repeatable.")
    ] = None,
    bootstrap: Bootstrap = BOOTSTRAP_DEFAULT,
    master: Master = MASTER_DEFAULT,
    conf: SparkSettings = None,
    output: Output = Format.TABLE,
) -> None:
    """Keep a lakehouse table in step with topics: every record exactly once, whatever is killed when.

    The table knows what it holds, so the job may be started again at any time, even without its checkpoint.
    """
    size = None if compact_to is None else _parse_size(compact_to)
    text = _read_schema(schema)
    done: list[Committed] = []
    with _spark(master, conf, "hightide lake") as spark:
        from hightide.spark.lake import to_lake

        def committed(batch: "Committed") -> None:
            done.append(batch)
            _say_batch(batch)

        try:
            query = to_lake(
                spark, bootstrap, topics, to, format=form, catalog=dict(map(split_setting, catalog or ())),
                value_format=value_format, schema=text, trigger=trigger, checkpoint=checkpoint, compact_to=size,
                options=dict(map(split_setting, options or ())), committed=committed,
            )  # fmt: skip
        except ApiError as error:
            raise failure_of(error) from None
        except (ValueError, TableError) as error:
            raise CommandError(str(error), ExitCode.USAGE) from None
        _await(query)
    _show_lake(output, to, done)


def _await(query: "StreamingQuery") -> None:
    from pyspark.errors import StreamingQueryException

    try:
        query.awaitTermination()
    except StreamingQueryException as error:
        raise CommandError(_reason(str(error)), hint="nothing is half done: start it again any time") from None
    except KeyboardInterrupt:
        query.stop()
        raise CommandError("interrupted", ExitCode.INTERRUPTED) from None


def _reason(text: str) -> str:
    """The sentence in a failed query's story, which is long and ends with the error that began it all."""
    found = re.findall(r"^(?:[\w.]*\.)?(\w+(?:Error|Exception)): (.+)$", text, re.MULTILINE)
    return f"{found[-1][1]} ({found[-1][0]})" if found else text.strip().splitlines()[0]


def _say_batch(batch: "Committed") -> None:
    if batch.rows:
        where = f"{batch.rows} records in {batch.files} files of {batch.bytes} bytes, table version {batch.version}"
    else:
        where = "nothing that the table does not have"
    merged = f", {batch.merged_files} small files merged" if batch.merged_files else ""
    say(f"batch {batch.batch}: {where}{merged}, {batch.seconds:.1f} s")


def _show_lake(output: Format, table: str, done: "Sequence[Committed]") -> None:
    facts = {
        "table": table,
        "version": next((batch.version for batch in reversed(done) if batch.version), None),
        "batches": len(done),
        "records": sum(batch.rows for batch in done),
        "files": sum(batch.files for batch in done),
        "bytes": sum(batch.bytes for batch in done),
    }
    show(
        output,
        document=facts,
        names=[table],
        tables=lambda: [Table([name.upper() for name in facts], [list(facts.values())])],
    )


def _read_schema(given: str | None) -> str | None:
    """A schema, or that of a file after an @."""
    if given is None or not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CommandError(f"the schema can't be read: {error}", ExitCode.USAGE) from None


def _parse_size(text: str) -> int:
    found = re.fullmatch(r"(\d+)\s*([KMG]?)i?B?", text, re.IGNORECASE)
    if found is None or not int(found[1]):
        raise CommandError(f"{text!r} is no size: write for example 128MB", ExitCode.USAGE)
    return int(found[1]) * _SIZES[found[2].upper()]


@contextmanager
def _spark(master: str, settings: list[str] | None, name: str) -> "Iterator[SparkSession]":
    """A session for one command, or the one that this process has; what is missing is said with what to do."""
    conf = {QUIET: f"-Dlog4j2.configurationFile=file:{LOG_SETTINGS}", **dict(map(split_setting, settings or ()))}
    try:
        from pyspark.sql import SparkSession

        from hightide.spark.sessions import session

        is_ours = SparkSession.getActiveSession() is None
        spark = session(master, name=name, conf=conf)
    except ModuleNotFoundError as error:
        raise CommandError(f"this needs Spark ({error})", ExitCode.USAGE, "`pip install hightide[spark]`") from None
    except RuntimeError as error:
        raise CommandError(str(error)) from None
    try:
        yield spark
    finally:
        if is_ours:
            spark.stop()


@contextmanager
def _task_progress(spark: "SparkSession", what: str) -> "Iterator[None]":
    """How many of the tasks under way are done, on a terminal."""
    if not sys.stderr.isatty():
        yield
        return
    from rich.console import Console
    from rich.progress import Progress

    tracker = spark.sparkContext.statusTracker()
    done = threading.Event()

    def watch() -> None:
        with Progress(console=Console(stderr=True), transient=True) as bar:
            task = bar.add_task(what, total=None)
            while not done.wait(PROGRESS_SECONDS):
                stages = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
                known = [stage for stage in stages if stage is not None]
                if known:
                    total = sum(stage.numTasks for stage in known)
                    bar.update(task, total=total, completed=sum(stage.numCompletedTasks for stage in known))

    watcher = threading.Thread(target=watch, name="progress", daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
