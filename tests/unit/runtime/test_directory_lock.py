"""A log directory has one owner at a time."""

from pathlib import Path

import pytest

from hightide.errors import StorageError
from hightide.runtime.directory_lock import lock_directory


def test_a_second_owner_is_refused_until_the_first_is_gone(tmp_path: Path) -> None:
    directory = str(tmp_path / "data")
    first = lock_directory(directory)
    with pytest.raises(StorageError, match="in use by another process"):
        lock_directory(directory)
    first.close()
    lock_directory(directory).close()
