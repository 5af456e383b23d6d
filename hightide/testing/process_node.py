"""A node as a process of its own: what a user runs, with real signals."""

import os
import signal
import subprocess

from hightide.runtime.launcher import LaunchError, LocalCluster
from hightide.testing.errors import ClusterError


class ProcessNode:
    """`nodes.Machine` on one node of a `LocalCluster`."""

    def __init__(self, node_id: int, cluster: LocalCluster) -> None:
        self.node_id = node_id
        self.is_paused = False
        self._cluster = cluster
        self._node = cluster.node(node_id)

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._node.running

    @property
    def pid(self) -> int | None:
        """The process, also after it ended."""
        return self._node.pid

    def launch(self) -> None:
        """Start the process; `await_ready` waits for it."""
        self.is_paused = False
        try:
            self._cluster.launch_node(self.node_id)
        except LaunchError as error:
            raise ClusterError(str(error)) from error

    def await_ready(self, timeout: float) -> None:
        """Return when it serves clients; ClusterError when it does not."""
        try:
            self._cluster.await_node(self.node_id, timeout)
        except LaunchError as error:
            raise ClusterError(str(error)) from error

    def begin_stop(self) -> None:
        """SIGTERM."""
        self._signal(signal.SIGTERM)

    def await_end(self, timeout: float) -> bool:
        """Whether it ended in time."""
        process = self._node.process
        assert process is not None
        try:
            process.wait(timeout)
        except subprocess.TimeoutExpired:
            return False
        self._cluster.kill(self.node_id)  # releases what is left of it
        return True

    def kill(self) -> None:
        """kill -9."""
        self._cluster.kill(self.node_id)

    def pause(self) -> None:
        """SIGSTOP, and wait until it stands still."""
        self._signal(signal.SIGSTOP)
        if self.pid is not None:
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
        self.is_paused = True

    def resume(self) -> None:
        """SIGCONT."""
        self._signal(signal.SIGCONT)
        self.is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        if self._node.process is not None:
            self._node.process.send_signal(number)
