"""One process per log directory: a lock that the operating system drops with the process, however it ends."""

import fcntl
from io import FileIO
from pathlib import Path

from hightide.errors import StorageError

LOCK_FILE = ".lock"  # Kafka's name for the same thing


def lock_directory(path: str) -> FileIO:
    """Take the directory for this process; StorageError while another has it. Held until the file is closed."""
    Path(path).mkdir(parents=True, exist_ok=True)
    file = FileIO(f"{path}/{LOCK_FILE}", "w")
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        file.close()
        raise StorageError(f"{path} is in use by another process: stop that one, or use another log.dirs") from None
    return file
