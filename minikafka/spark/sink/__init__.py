"""DataFrames to topics, batch and streaming: every in-sync replica stores each row at least once, in order.

==============  =====================================================================================================
``writers``     the interface to Spark, on the driver and in tasks
``columns``     the columns of a DataFrame for a topic
``placing``     the partition of each row
``sizes``       the largest batch of a topic
``origin``      headers by which a reader finds and drops repeated records
``writing``     the work of a task
==============  =====================================================================================================

The producer is idempotent: its own retries write nothing twice. A task or micro-batch that Spark repeats writes its
rows again. A reader drops them with ``deduplicationHeaders`` and ``deduplicated``.
"""

from minikafka.spark.sink.origin import ORIGIN_HEADER, deduplicated
from minikafka.spark.sink.writers import TopicStreamWriter, TopicWriter

__all__ = ["ORIGIN_HEADER", "TopicStreamWriter", "TopicWriter", "deduplicated"]
