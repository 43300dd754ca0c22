"""Topics from log directories, without a broker: ``spark.read.format("minikafka-log").load(DIRECTORY)``.

It shows the real content of a node's disks, whether it runs or not; fills a lake afterwards; and compares the replicas
of a partition, record by record.

================  ===================================================================================================
``options``       the options of ``.option(...)``
``directories``   finds log directories, the replicas in them and their segments (pure, over a disk)
``transactions``  what of a replica is committed
``segments``      the part to read of each segment: a task
``scanning``      the batches of one segment, and its damage
``rows``          batches -> Arrow, with their positions and producers
``data_source``   the interface to Spark
``comparing``     finds the offsets in which replicas differ
================  ===================================================================================================

A directory may belong to a running node: the reader changes no file. If the node deletes or compacts a segment between
planning and reading, the query fails. So copy the directory of a running node, or read topics without compaction.
"""

from minikafka.spark.offline.comparing import compare_replicas
from minikafka.spark.offline.data_source import LogDataSource

__all__ = ["LogDataSource", "compare_replicas"]
