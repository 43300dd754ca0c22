"""Found by Spark, as ``pyspark_minikafka`` is: ``format("minikafka-log")`` without a call."""

from contextlib import suppress

with suppress(ImportError):
    from minikafka.spark.offline import LogDataSource as DefaultSource

__all__ = ["DefaultSource"]
