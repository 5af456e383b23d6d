"""Machine code is made once and kept."""

import os
import subprocess
import sys
from pathlib import Path

from hightide.spark import compiling

LOAD = """
import numpy as np
from hightide.spark.scanning import _varint
assert _varint(np.array([150, 1], np.uint8), 0, 2, 5) == (75, 2)
stats = _varint.stats
print(sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def test_the_second_process_compiles_nothing(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}

    def hits_and_misses() -> str:
        done = subprocess.run([sys.executable, "-c", LOAD], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    assert hits_and_misses() == "0 1"
    assert hits_and_misses() == "1 0"


def test_a_folder_for_machine_code_belongs_to_this_user_alone(tmp_path: Path) -> None:
    import tempfile

    before, tempfile.tempdir = tempfile.tempdir, str(tmp_path)
    try:
        folder = compiling._own_folder()
        assert folder.stat().st_mode & 0o777 == 0o700
        assert compiling._own_folder() == folder
        folder.chmod(0o777)  # anybody could have put code here
        assert compiling._own_folder() != folder
    finally:
        tempfile.tempdir = before
