"""The machine as the bench sees it: who else uses it, whose CPU time went where, memory that is really there."""

import os
import platform
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hightide.interpreted import is_compiled

CORES = os.cpu_count() or 1
FOREIGN_CORES_MAX = 0.25  # beyond this another process shared the caches and the cores with a run
STOLEN_CORES_MAX = 0.15  # the hypervisor ran somebody else meanwhile
KERNEL_THREAD_FLAG = 0x00200000
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
STEAL_FIELD = 8


def congestion_control() -> str:
    """What the system's sockets use: one that paces (BBR) slows large transfers down, on loopback too."""
    try:
        return Path("/proc/sys/net/ipv4/tcp_congestion_control").read_text().strip()
    except OSError:
        return ""


def python_version() -> str:
    """What runs the broker."""
    return f"{platform.python_version()}, {'compiled' if is_compiled() else 'interpreted'}"


@dataclass
class Watch:
    """What happened around one run; `disturbance` says why it can't be trusted, if it can't."""

    seconds: float = 0.0
    foreign_cores: float = 0.0
    stolen_cores: float = 0.0

    @property
    def disturbance(self) -> str | None:
        if self.foreign_cores > FOREIGN_CORES_MAX:
            return f"other processes used {self.foreign_cores:.1f} cores"
        if self.stolen_cores > STOLEN_CORES_MAX:
            return f"the host took {self.stolen_cores:.1f} cores away"
        return None


@contextmanager
def watch(processes: Sequence[int] = ()) -> Iterator[Watch]:
    """Look at the machine around a run. Ours are this process, children that end meanwhile, and `processes`, our
    children that live at the start; one that is started meanwhile is appended."""
    result = Watch()
    busy, stolen, ours = _busy_seconds(), _stolen_seconds(), _our_seconds(processes)
    started = time.monotonic()
    yield result
    result.seconds = max(time.monotonic() - started, 1e-6)
    ours = _our_seconds(processes) - ours
    result.foreign_cores = max(_busy_seconds() - busy - ours, 0.0) / result.seconds
    result.stolen_cores = (_stolen_seconds() - stolen) / result.seconds


def cpu_seconds(process: int) -> float:
    """CPU time of a whole process in nanosecond grain, ended threads included: clock_getcpuclockid's clock."""
    return time.clock_gettime((~process << 3) | 2)


def _our_seconds(processes: Sequence[int]) -> float:
    times = os.times()
    reaped = times.children_user + times.children_system
    return time.process_time() + reaped + sum(_cpu_seconds_left(process) for process in processes)


def _cpu_seconds_left(process: int) -> float:
    """None of a process that ended meanwhile: all of its time is among that of the reaped children then."""
    try:
        return cpu_seconds(process)
    except OSError:
        return 0.0


def _busy_seconds() -> float:
    """User and system time of all processes. Kernel threads write our pages back: they count as nobody's."""
    user, nice, system = _machine_ticks()[:3]
    return (user + nice + system - _kernel_thread_ticks()) / TICKS_PER_SECOND


def _stolen_seconds() -> float:
    ticks = _machine_ticks()
    return ticks[STEAL_FIELD - 1] / TICKS_PER_SECOND if len(ticks) >= STEAL_FIELD else 0.0


def _machine_ticks() -> list[int]:
    with open("/proc/stat", encoding="ascii") as file:
        return [int(field) for field in file.readline().split()[1:]]


def _kernel_thread_ticks() -> int:
    total = 0
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:  # it ended meanwhile
            continue
        if int(fields[6]) & KERNEL_THREAD_FLAG:
            total += int(fields[11]) + int(fields[12])
    return total


def touch_memory(program: Path, megabytes: int) -> None:
    """Use that much memory and give it back, so that the run that follows writes to pages the host has handed out."""
    subprocess.run([program, str(megabytes)], check=True)


def resident_and_proportional_mb(process: int) -> tuple[float, float]:
    """RSS and PSS of a process."""
    sizes = {"Rss": 0, "Pss": 0}
    for line in Path(f"/proc/{process}/smaps_rollup").read_text().splitlines():
        name, _, rest = line.partition(":")
        if name in sizes:
            sizes[name] = int(rest.split()[0]) * 1024
    return sizes["Rss"] / 1e6, sizes["Pss"] / 1e6


def resident_mb(process: int) -> float:
    """RSS of a process, cheap enough to be asked beside every run."""
    pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGESIZE") / 1e6
