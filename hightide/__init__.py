"""hightide: a replicated, partitioned message log that speaks Kafka's wire protocol.

With HIGHTIDE_INTERPRETED=1 in the environment every module is read from its source, also those that were compiled
(docs/decisions/0011): for debuggers, for profilers, and to see whether something depends on it.
"""

import os

__version__ = "0.1.0"

if os.environ.get("HIGHTIDE_INTERPRETED") == "1":
    from hightide.interpreted import prefer_sources

    prefer_sources()
