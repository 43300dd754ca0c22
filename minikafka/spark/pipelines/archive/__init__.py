"""Topics to a lake, each offset exactly once: ``archive(topics=["orders"], to="lake", ...)``.

A lake is a Delta table, on a file system or in an object store. The table itself knows its offsets, not a checkpoint of
Spark: every commit has the ends of the archived ranges. The next job goes on from there. So no offset is missing or
repeated, whatever was killed at whatever time.

* ``planning``     the next offsets to archive; what has diverged; the next days to compact (pure)
* ``writing``      the work of tasks: ranges of offsets -> files of Parquet
* ``workers``      where tasks run: in Spark, or in processes of this machine
* ``places``       directories and object stores, and their errors
* ``lake``         the table: its commits, and who may write to it
* ``reading``      its records as a DataFrame
* ``archiving``    the order of the work
* ``taking_over``  lakes of earlier versions become tables, in place

``topic`` and ``date`` (the UTC day of the timestamp) are the partition columns, the others those of the source.
"""

from __future__ import annotations

from minikafka.spark.pipelines.archive.archiving import Archived, TopicSummary, archive
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.reading import read_lake

__all__ = ["Archived", "Lake", "TopicSummary", "archive", "read_lake"]
