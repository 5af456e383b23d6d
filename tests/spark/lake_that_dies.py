"""A lake job that is killed, with its JVM and its workers, between a commit of the table and Spark's note of it.

python -m tests.spark.lake_that_dies BOOTSTRAP TOPIC TABLE FORMAT CATALOG CHECKPOINT BATCH
"""

import json
import os
import signal
import sys

from hightide.spark import session, to_lake
from hightide.spark.lake import Committed


def main(bootstrap: str, topic: str, table: str, form: str, catalog: str, checkpoint: str, last: str) -> None:
    """Run until the given batch is committed."""

    def committed(batch: Committed) -> None:
        if batch.batch == int(last):
            os.killpg(0, signal.SIGKILL)

    spark = session("local[1]", conf={"spark.driver.memory": "512m"})
    query = to_lake(
        spark, bootstrap, topic, table, format=form, catalog=json.loads(catalog) or None, checkpoint=checkpoint,
        options={"maxOffsetsPerTrigger": "100"}, committed=committed,
    )  # fmt: skip
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])
