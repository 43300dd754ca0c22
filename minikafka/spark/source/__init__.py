"""``format("minikafka")``: topics as DataFrames, in batch and streaming.

===============  =====================================================================================================
``data_source``  what Spark finds under the name: schema, readers, writers
``batch``        plans a batch: where it begins and ends, into how many tasks it is split
``stream``       plans micro-batches
``refused``      a stream whose options cannot be used
``ends``         the ends of the logs of a stream, remembered for a moment (pure)
``truncation``   finds streams that stand where their log does not lead any more (pure)
``bounds``       options to offsets: which partitions there are, where they begin and end
``offsets``      offsets of a stream as JSON, kept in Spark's checkpoint (pure)
``limits``       how far a micro-batch goes (pure)
``ranges``       ranges of offsets, split into tasks (pure)
``losses``       what to do when records that should be read are gone
``reading``      what a task does: a range of offsets to Arrow record batches
===============  =====================================================================================================

A range is read again exactly as before: its offsets are fixed before it is read, and the leader epoch that goes with
them tells a log that is not the same any more. Readers hold options only; connections belong to the process.
"""

from minikafka.spark.source.data_source import MinikafkaDataSource
from minikafka.spark.source.losses import DataLossError

__all__ = ["DataLossError", "MinikafkaDataSource"]
