"""Found by Spark, which takes ``DefaultSource`` of modules ``pyspark_*``: ``format("minikafka")`` without a call.

An import that fails would keep Spark from finding the sources of others; without the extra there is just none of ours.
"""

from contextlib import suppress

with suppress(ImportError):
    from minikafka.spark.source import MinikafkaDataSource as DefaultSource

__all__ = ["DefaultSource"]
