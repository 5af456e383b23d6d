"""Compiling the hot loops with numba, once per machine: the machine code is kept on disk and every executor loads it.

numba keeps it beside the source, or, where that can't be written, in the user's cache folder. Where there is neither
(a system-wide install, a user without a home), it goes to a folder in the temporary directory that only this user may
write: code that is loaded must not come from somebody else.
"""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


def compiled(function: F) -> F:
    """The same function as machine code. Without the GIL, so that fetching goes on beside it."""
    import numba

    try:
        return numba.njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:  # numba knows no place for its cache
        numba.config.CACHE_DIR = str(_own_folder())
        return numba.njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]


def _own_folder() -> Path:
    folder = Path(tempfile.gettempdir()) / f"hightide-numba-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    status = folder.lstat()
    if status.st_uid != os.getuid() or status.st_mode & 0o022 or folder.is_symlink():
        return Path(tempfile.mkdtemp(prefix="hightide-numba-"))  # somebody was here first: compile for this process
    return folder
