"""Topics from log directories, without a broker: ``spark.read.format("minikafka-log").load(DIRECTORY)``.

For looking into what a node, running or not, really has on its disks; for filling up a lake after the fact; and for
comparing the replicas of a partition, record by record.

================  ===================================================================================================
``options``       what ``.option(...)`` understands
``directories``   finds log directories, the replicas in them and their segments (pure, over a disk)
``segments``      which part of which segments is read: a task for each
``scanning``      the batches of one segment, and what is damaged
``rows``          batches -> Arrow, with where they lie and who wrote them
``data_source``   what Spark calls
``comparing``     in which offsets replicas differ
================  ===================================================================================================

A directory may belong to a node that runs: what is read is never changed. A segment that its node deletes or compacts
between planning and reading is an error then; so of a running node take a copy, or read what is not compacted.
"""

from minikafka.spark.offline.comparing import compare_replicas
from minikafka.spark.offline.data_source import LogDataSource

__all__ = ["LogDataSource", "compare_replicas"]
