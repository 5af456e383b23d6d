"""The stock JVM connector, `spark-sql-kafka-0-10`: Spark 4.0.0, the one release whose jars can be had whole, in a
virtual environment of its own, fetched once with pip and Maven and kept in .cache.

A script that runs there uses Python's standard library and pyspark alone, and finds the jars in STOCK_JARS.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from hightide.spark.java import prepare_java
from tools.java_tools import JavaMissingError

ROOT = Path(__file__).resolve().parent.parent
POM = ROOT / "tests" / "spark" / "java" / "pom.xml"
CACHE = ROOT / ".cache" / "stock-connector"
RELEASE = "4.0.0"


class StockConnector:
    """Where it is, and how to run a script with it."""

    def __init__(self) -> None:
        self._java = prepare_java()
        key = hashlib.sha256(POM.read_bytes() + RELEASE.encode()).hexdigest()[:12]
        self.home = CACHE / key
        if not self.home.exists():
            self._fetch()

    def run(
        self, script: Path, *arguments: str | Path, directory: Path, timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """Run a script there and wait for its end."""
        command = [self.home / "python" / "bin" / "python", "-E", script, *arguments]
        return subprocess.run(
            command, env=self.environment(), capture_output=True, text=True, timeout=timeout, check=False, cwd=directory
        )

    def environment(self) -> dict[str, str]:
        """Nothing of this Python's may reach that one."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK"))
        }
        jars = sorted((self.home / "jars").glob("*.jar"))
        return kept | {"JAVA_HOME": str(self._java), "STOCK_JARS": ",".join(map(str, jars))}

    def _fetch(self) -> None:
        if shutil.which("mvn") is None:
            raise JavaMissingError("`mvn` is not installed; on Debian: apt-get install maven")
        # A rename publishes the folder, so that two runs at once do not mix.
        partial = self.home.with_name(f"{self.home.name}.{os.getpid()}")
        venv.create(partial / "python", with_pip=False)
        python = str(partial / "python" / "bin" / "python")
        pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--python", python]
        subprocess.run([*pip, "install", "--quiet", f"pyspark=={RELEASE}"], check=True)
        output = f"-DoutputDirectory={partial / 'jars'}"
        maven = ["mvn", "-q", "-B", "-f", str(POM), "dependency:copy-dependencies", output]
        subprocess.run(maven, check=True, cwd=POM.parent)
        try:
            partial.rename(self.home)
        except OSError:
            shutil.rmtree(partial)
