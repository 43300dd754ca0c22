"""Topics to a lake of Parquet files, each offset exactly once: ``archive(spark, topics=["orders"], to="lake", ...)``.

The lake, not a checkpoint of Spark, knows what it holds: every commit says which offsets it archived. The next job
reads from there, so whatever was killed, and whenever, nothing is missing and nothing is there twice.

* ``layout``     paths, file names
* ``manifest``   what commits say, and what they come to
* ``planning``   what to archive next; which files to put together
* ``state``      what a lake on disk says of itself, and whether it is true
* ``lake``       commits to it, and what a crash between any two steps of one leaves to do
* ``exchange``   two directories at once
* ``writing``    what tasks do: ranges of offsets -> files
* ``archiving``  the order of the work
* ``reading``    a lake as a DataFrame

Any reader of Parquet reads the directory as it is: ``topic`` and ``date`` (the UTC day of the timestamp) are Hive
partitions, the other columns those of the source. See ``lake`` for what it may see while somebody writes.
"""

from __future__ import annotations

from minikafka.spark.pipelines.archive.archiving import Archived, TopicSummary, archive
from minikafka.spark.pipelines.archive.reading import read_lake

__all__ = ["Archived", "TopicSummary", "archive", "read_lake"]
