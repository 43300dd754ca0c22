"""DataFrames to topics, in batch and streaming: rows are stored by every in-sync replica, in order, each at least once.

==============  =====================================================================================================
``writers``     what Spark calls, on the driver and in tasks
``columns``     which columns a DataFrame has for a topic
``placing``     which partition each row goes to
``sizes``       how large batches may be
``origin``      headers that tell a record that was written twice, and how a reader drops it
``writing``     what a task does
==============  =====================================================================================================

The producer is idempotent, so that its own retries write nothing twice. Spark's repeat of a task or of a micro-batch
does write its rows again; a reader that must not see them twice uses ``deduplicationHeaders`` and ``deduplicated``.
"""

from minikafka.spark.sink.origin import ORIGIN_HEADER, deduplicated
from minikafka.spark.sink.writers import TopicStreamWriter, TopicWriter

__all__ = ["ORIGIN_HEADER", "TopicStreamWriter", "TopicWriter", "deduplicated"]
