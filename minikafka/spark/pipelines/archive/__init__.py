"""Topics to a lake of Parquet files, each offset exactly once: ``archive(spark, topics=["orders"], to="lake", ...)``.

The lake itself knows its content, not a checkpoint of Spark: every commit has the archived offsets. The next job goes
on from there. So no offset is missing or repeated, whatever was killed at whatever time.

* ``layout``     paths, file names
* ``manifest``   commits, and the content of the lake that follows from them
* ``planning``   the next offsets to archive; the next files to compact
* ``state``      the content of a lake on disk, read and checked
* ``lake``       commits, and the recovery from a crash between any two steps
* ``exchange``   swaps two directories at once
* ``writing``    the work of tasks: ranges of offsets -> files
* ``archiving``  the order of the work
* ``reading``    a lake as a DataFrame

Any reader of Parquet can read the directory: ``topic`` and ``date`` (the UTC day of the timestamp) are Hive
partitions, the other columns those of the source. ``lake`` describes its view during a commit.
"""

from __future__ import annotations

from minikafka.spark.pipelines.archive.archiving import Archived, TopicSummary, archive
from minikafka.spark.pipelines.archive.reading import read_lake

__all__ = ["Archived", "TopicSummary", "archive", "read_lake"]
