"""The durable vote and epoch of this node in the metadata quorum: Kafka's `quorum-state` file.

R9: it is on disk before anybody acts on it, and an unreadable one stops the start instead of voting twice (N8).
"""

import json
from typing import NamedTuple

from hightide.errors import CorruptionError
from hightide.rules import Rules
from hightide.storage.checkpoints import read_file, write_atomically
from hightide.storage.files import Files

QUORUM_STATE_FILE = "quorum-state"


class QuorumState(NamedTuple):
    """The epoch this voter is in, who leads it and whom it voted for; -1 is nobody."""

    epoch: int = 0
    leader: int = -1
    voted: int = -1


def load_quorum_state(files: Files, directory: str) -> QuorumState:
    """What was stored last; epoch 0 when there never was anything."""
    path = f"{directory}/{QUORUM_STATE_FILE}"
    if not files.exists(path):
        return QuorumState()
    try:
        fields = json.loads(read_file(files, path))
        return QuorumState(int(fields["leaderEpoch"]), int(fields["leaderId"]), int(fields["votedId"]))
    except (KeyError, TypeError, ValueError) as error:
        raise CorruptionError(
            f"{path} can't be read: without it this node might vote twice in one epoch, so it does not start"
        ) from error


def store_quorum_state(files: Files, directory: str, state: QuorumState, rules: Rules) -> None:
    """Make it last."""
    fields = {
        "leaderId": state.leader,
        "leaderEpoch": state.epoch,
        "votedId": state.voted,
        "votedDirectoryId": "AAAAAAAAAAAAAAAAAAAAAA",
        "data_version": 1,
    }
    write_atomically(files, f"{directory}/{QUORUM_STATE_FILE}", json.dumps(fields).encode(), rules)
