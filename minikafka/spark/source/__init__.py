"""``format("minikafka")``: topics as DataFrames, in batch and streaming.

===============  =====================================================================================================
``data_source``  the data source of that name: schema, readers, writers
``batch``        plans a batch: its offsets and tasks
``filters``      what of a batch may pass Spark's filters
``stream``       plans micro-batches
``refused``      a stream with invalid options
``ends``         the ends of the logs of a stream, cached for a moment (pure)
``truncation``   finds truncated logs (pure)
``bounds``       from options to partitions and their offsets
``offsets``      offsets of a stream as JSON, kept in Spark's checkpoint (pure)
``limits``       the size of a micro-batch (pure)
``ranges``       ranges of offsets, split into tasks (pure)
``losses``       reaction to lost records
``reading``      the work of a task: from a range of offsets to Arrow record batches
===============  =====================================================================================================

A repeated read of a range gives the same rows: its offsets are fixed before, and their leader epoch detects a changed
log. Readers hold options only; connections belong to the process.
"""

from minikafka.spark.source.data_source import FilteredDataSource, MinikafkaDataSource
from minikafka.spark.source.losses import DataLossError

__all__ = ["DataLossError", "FilteredDataSource", "MinikafkaDataSource"]
