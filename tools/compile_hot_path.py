"""Compiles the way of a record, from the socket to the disk and back, with mypyc: `python -m tools.compile_hot_path`.

The modules stay ordinary Python and run without this too, at about two thirds of the speed for small requests
(docs/decisions/0011). What is compiled lies beside its source and is imported instead of it; `make` compiles again what
changed, and tests refuse to run on what is older than its source. Without a C compiler or Python's headers nothing is
compiled and nothing fails: that is said, and hightide runs interpreted.

Only modules that every record passes are listed: all of them are in one group, whose members call each other as C does.
"""

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GROUP = "hightide"  # names the one library that all extension modules share, `hightide__mypyc`
HOT_PATH = {
    "wire": "checksum compact fetch follower_fetch framing primitives produce records validation",
    "storage": "epochs files index log producers segment segments space syncing verification",
    "replication": "commit effects events fetching followers insync leadership leases replica throttle",
    "node": (
        "apis bursts commits fetch_sessions follower_news log_view partitions refusals replica_fetcher sessions stats"
        " waiting"
    ),
    "node/handlers": "fetch produce",
    "runtime": "clock connections file file_pump large_requests",
}

CONSTANTS = ("limits", "types")  # not compiled, but what is has their numbers in it
NOT_READ = {"cli", "sim", "spark", "testing"}  # nothing in the list imports from there


def sources() -> list[Path]:
    """The modules to compile, from the root of the tree."""
    return [Path("hightide", folder, f"{name}.py") for folder, names in HOT_PATH.items() for name in names.split()]


def libraries(root: Path) -> list[Path]:
    """What was compiled there, for whatever Python."""
    return [*root.glob(f"{GROUP}__mypyc*.so"), *root.glob("hightide/**/*.so")]


def targets(root: Path) -> list[Path]:
    """What there is when all was compiled for this Python."""
    suffix = sysconfig.get_config_var("EXT_SUFFIX")
    return [root / f"{GROUP}__mypyc{suffix}", *((root / source).with_suffix(suffix) for source in sources())]


def is_fresh(root: Path) -> bool:
    """Whether all was compiled there for this Python, after the last change of anything it was compiled from."""
    wanted = targets(root)
    if not all(library.exists() for library in wanted):
        return False
    read = [path for path in root.glob("hightide/**/*.py") if path.relative_to(root).parts[1] not in NOT_READ]
    changed = max(path.stat().st_mtime for path in (*read, Path(__file__)))
    return changed < min(library.stat().st_mtime for library in wanted)


def outdated(root: Path) -> list[Path]:
    """The sources that changed after they, or their constants, were compiled: what runs is not what they say."""
    compiled = list(zip(sources(), targets(root)[1:], strict=True))
    folded = [(Path("hightide", f"{name}.py"), targets(root)[0]) for name in CONSTANTS]
    return [
        source
        for source, library in (*compiled, *folded)
        if library.exists() and library.stat().st_mtime < (root / source).stat().st_mtime
    ]


def missing() -> str | None:
    """What keeps this machine from compiling, in words; None when nothing does."""
    if shutil.which(os.environ.get("CC", "cc")) is None:
        return "there is no C compiler"
    if not Path(sysconfig.get_path("include"), "Python.h").exists():
        return (
            f"there are no headers of Python {sys.version_info.major}.{sys.version_info.minor} (on Debian: python3-dev)"
        )
    return None


def remove(root: Path) -> None:
    """Nothing is compiled there any more."""
    for library in libraries(root):
        library.unlink()


def compile_into(root: Path) -> None:
    """Compile the modules of the tree at `root` in place; CalledProcessError with what was printed if that fails."""
    remove(root)
    with tempfile.TemporaryDirectory() as scratch:
        command = [sys.executable, str(Path(__file__).resolve()), "--build", scratch]
        subprocess.run(command, cwd=root, check=True, capture_output=True, text=True)


def _build(scratch: str) -> None:
    """In a process of its own: mypyc and setuptools keep much in memory, read arguments and change what they meet."""
    from mypyc.build import mypycify
    from setuptools import setup
    from setuptools.dist import Distribution

    Distribution.parse_config_files = lambda *_, **__: None  # the project's own are hatchling's
    options = ["--ignore-missing-imports", "--config-file=", f"--cache-dir={scratch}/mypy"]
    modules = mypycify(
        [*options, *map(str, sources())], opt_level="3", debug_level="0", group_name=GROUP, target_dir=scratch
    )
    build = ["build_ext", "--inplace", "--parallel=2", f"--build-temp={scratch}", f"--build-lib={scratch}/lib"]
    setup(name=GROUP, ext_modules=modules, packages=[], script_args=["--quiet", *build])


def main() -> int:
    """Compile this tree, or say why not."""
    reason = missing()
    if reason is not None:
        remove(ROOT)
        print(f"==> {reason}, so hightide is not compiled: it works, at about two thirds of its speed")
        return 0
    if is_fresh(ROOT):
        return 0
    print("==> compiling the hot path (a minute or two, once)", flush=True)
    try:
        compile_into(ROOT)
    except subprocess.CalledProcessError as error:
        print(f"{error.stdout}{error.stderr}\nmypyc could not compile hightide", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["--build"]:
        _build(sys.argv[2])
    else:
        sys.exit(main())
