"""`python -m bench [PART] [--quick] [--only NAME…]`. Without a part, which is `make bench`: first one broker beside
what the machine itself can do (5 minutes), then hightide and Apache Kafka side by side (20 minutes). Failovers of three
brokers, a thousand partitions, consumer groups and compaction (5 minutes each) are measured when asked for."""

import argparse
import os
import resource
import shutil
import signal
import sys
import time
from pathlib import Path

from rich.console import Console

from bench import machine
from bench.compaction import measure_compaction
from bench.comparison.run import ROWS
from bench.failover import measure_failover
from bench.groups import measure_groups
from bench.kafka_server import kafka_jars
from bench.one_broker import PARTS, measure_one_broker
from bench.programs import BUILT, FailedError, MissingError
from bench.report import WIDTH_ELSEWHERE
from bench.scale import measure_scale
from bench.side_by_side import measure_side_by_side

RESULTS = Path(__file__).parent.parent / "docs" / "benchmarks"
ONE_BROKER, KAFKA = "one-broker", "kafka"
PAGES = {
    "failover": measure_failover,
    "scale": measure_scale,
    "groups": measure_groups,
    "compaction": measure_compaction,
}
NAMES = {ONE_BROKER: PARTS, KAFKA: ROWS, **{name: (name,) for name in PAGES}}


def main() -> int:
    """Measure, print, write."""
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))  # by exception, so that no server is left behind
    _allow_many_files()
    console = Console(width=None if sys.stdout.isatty() else WIDTH_ELSEWHERE)
    directory = options.dir.resolve() / f"bench-{os.getpid()}"
    directory.mkdir(parents=True)
    started = time.monotonic()
    fine = True
    try:
        load = _load(console)
        parts = [options.part] if options.part else [ONE_BROKER, KAFKA]
        if KAFKA in parts and not _has_kafka(console):
            parts.remove(KAFKA)
            fine = False
        for part in parts:
            names = [name for name in NAMES[part] if not options.only or name in options.only]
            if part == ONE_BROKER and names:
                fine &= measure_one_broker(console, directory, RESULTS, load, names, is_quick=options.quick)
            elif part in PAGES:
                fine &= PAGES[part](console, directory, RESULTS, load, is_quick=options.quick)
            elif names:
                fine &= measure_side_by_side(
                    console, directory, RESULTS, load, names, is_quick=options.quick, merge=options.merge
                )
    except (MissingError, FailedError) as error:
        console.print(str(error), highlight=False, markup=False)
        return 1
    finally:
        shutil.rmtree(directory, ignore_errors=True)
    console.print(f"Took {time.monotonic() - started:.0f} s.", highlight=False)
    return 0 if fine else 1


def _allow_many_files() -> None:
    """A thousand connections and partitions need more descriptors than many systems allow unless asked. The servers
    inherit it."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _has_kafka(console: Console) -> bool:
    """Whether Kafka can be run here; what is missing is said before anything is measured."""
    try:
        kafka_jars()
    except MissingError as error:
        console.print(str(error), highlight=False, markup=False)
        return False
    return True


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure hightide on this machine.")
    parser.add_argument(
        "part", nargs="?", choices=tuple(NAMES),
        help="one broker beside the machine's own speed, hightide beside Apache Kafka (both when not said), what a "
        "producer notices of failovers, a thousand partitions, consumer groups, or compaction",
    )  # fmt: skip
    parser.add_argument("--quick", action="store_true", help="one short run of everything: a smoke test, no figures")
    parser.add_argument(
        "--only", nargs="+", action="extend", metavar="NAME",
        help=f"measure only these: {', '.join(PARTS)} (one-broker); {', '.join(ROWS)} (kafka)",
    )  # fmt: skip
    parser.add_argument("--merge", action="store_true", help="put the rows of --only into docs/benchmarks/kafka.*")
    parser.add_argument("--dir", type=Path, default=BUILT / "data", help="where the brokers keep their data")
    options = parser.parse_args()
    known = NAMES[options.part] if options.part else PARTS + ROWS
    unknown = [name for name in options.only or () if name not in known]
    if unknown:
        parser.error(f"there is no {', '.join(unknown)}: choose from {', '.join(known)}")
    return options


def _load(console: Console) -> str:
    """What the machine was doing before we began, said aloud when it was not idle."""
    with machine.watch() as seen:
        time.sleep(1.0)
    minute = os.getloadavg()[0]
    text = f"other processes using {seen.foreign_cores:.2f} cores before the start (load {minute:.2f})"
    if seen.disturbance or minute > machine.CORES / 2:
        console.print(f"This machine is busy: {text}. Disturbed runs will be left out.", highlight=False)
    return text


if __name__ == "__main__":
    sys.exit(main())
