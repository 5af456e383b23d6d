"""A wheel built from the tree, in an environment that has nothing else, is a working `hightide`."""

import os
import subprocess
import sys
import venv
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from hightide import __version__
from tools.compile_hot_path import missing, targets

ROOT = Path(__file__).parents[2]
READY = " is ready on "

pytestmark = [pytest.mark.xdist_group("wheel"), pytest.mark.timeout(240)]


# Nothing of this environment may help the installed one: neither the tree nor our variables.
ENVIRONMENT = {
    name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "HIGHTIDE_", "VIRTUAL_"))
}


def run(*command: str | Path, given: str = "") -> str:
    """What a command prints; one that fails shows what it said."""
    done = subprocess.run(
        list(map(str, command)), input=given, capture_output=True, text=True, cwd="/", env=ENVIRONMENT, check=False
    )
    assert done.returncode == 0, f"{' '.join(map(str, command))}: {done.stdout}{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", directory, ROOT)
    (built,) = directory.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def command(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`hightide` in an environment into which only the wheel was installed, with what it asks for."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False)
    run(
        sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", place / "bin" / "python",
        "install", "--quiet", "--no-compile", wheel,
    )  # fmt: skip
    return place / "bin" / "hightide"


@pytest.fixture
def bootstrap(command: Path, tmp_path: Path) -> Iterator[str]:
    """The address of an installed `hightide server`, stopped cleanly at the end."""
    settings = ["--set", "listeners=PLAINTEXT://127.0.0.1:0", "--set", f"log.dir={tmp_path}/data"]
    server = subprocess.Popen(
        [command, "server", *settings], stdout=subprocess.PIPE, text=True, cwd="/", env=ENVIRONMENT
    )
    assert server.stdout is not None
    line = server.stdout.readline()
    assert READY in line, f"the server said {line!r} and ended with {server.wait()}"
    yield line.strip().partition(READY)[2]
    server.terminate()
    with server:
        assert server.wait() == 0


def test_the_wheel_holds_the_package_and_nothing_else(wheel: Path) -> None:
    with ZipFile(wheel) as archive:
        names = archive.namelist()
    packages = (ROOT / "hightide", ROOT / "pyspark_hightide")
    kinds = ("*.py", "*.properties")
    sources = {
        str(path.relative_to(ROOT)) for package in packages for kind in kinds for path in package.rglob(kind)
    }  # fmt: skip
    if missing() is None:
        sources |= {str(path.relative_to(ROOT)) for path in targets(ROOT)}
    information = f"hightide-{__version__}.dist-info/"
    assert {name for name in names if not name.startswith(information)} == sources
    assert f"{information}licenses/LICENSE" in names


def test_the_command_knows_its_version(command: Path) -> None:
    assert run(command, "--version") == f"hightide {__version__}\n"


def test_a_server_keeps_a_record(command: Path, bootstrap: str) -> None:
    run(command, "produce", "greetings", "-b", bootstrap, given="hello\n")
    assert run(command, "consume", "greetings", "-b", bootstrap) == "hello\n"
