"""What the nodes in this process log, each to the file that a process of its own would have.

A record belongs to the node whose thread wrote it.
"""

import logging
import os
import threading
from pathlib import Path
from typing import TextIO

LOGGERS = ("hightide", "asyncio")
FORMAT = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class NodeLogs(logging.Handler):
    """Sorts records into files by thread. Attached while at least one node has a file open."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(FORMAT))
        self._files: dict[int, TextIO] = {}
        self._levels: dict[str, int] = {}
        self._changing = threading.Lock()

    def emit(self, record: logging.LogRecord) -> None:
        file = None if record.thread is None else self._files.get(record.thread)
        if file is not None and not file.closed:
            file.write(f"{self.format(record)}\n")
            file.flush()

    def begin(self, path: Path) -> None:
        """This thread is a node's from now on."""
        with self._changing:
            if not self._files:
                self._attach()
            self._files[threading.get_ident()] = path.open("a", encoding="utf-8")

    def end(self) -> None:
        """It ends."""
        with self._changing:
            file = self._files.pop(threading.get_ident(), None)
            if file is not None:
                file.close()
                if not self._files:
                    self._detach()

    def _attach(self) -> None:
        level = os.environ.get("HIGHTIDE_LOG_LEVEL", "INFO").upper()
        for name in LOGGERS:
            logger = logging.getLogger(name)
            self._levels[name] = logger.level
            logger.addHandler(self)
        logging.getLogger(LOGGERS[0]).setLevel(level)

    def _detach(self) -> None:
        for name, level in self._levels.items():
            logger = logging.getLogger(name)
            logger.removeHandler(self)
            logger.setLevel(level)
        self._levels.clear()


NODE_LOGS = NodeLogs()
