"""Topics as Spark DataFrames: source and sink, batch and streaming, and pipelines over topics.

``start_session("job")`` starts a Spark session with both formats. ``register(spark)`` adds them to your own session.

=================  ================================================================================================
``java``           the Java that runs Spark
``session``        a session on this machine or on a cluster
``shared_classes`` an archive of Spark's classes, for a faster start
``typical_jobs``   jobs that load the classes of this archive
``daemon``         PySpark's daemon, which forks the Python workers of a local session
``options/``       the options of ``.option(...)``, one row each
``columns/``       record batches <-> Arrow, without a Python object for a record
``cluster``        the synchronous client, one for a process; ``loop``: its event loop, in a thread
``brokers``        a cluster as pipelines reach it
``clients``        admin, consumer and producer; ``pool``: connected clients; ``writer``: batches of one task
``topics``         partitions and ids of topics
``lag``            how far a stream is behind
``gaps``           ranges of offsets without a record
``source/``        ``format("minikafka")``: batch and streaming readers, planning of offsets
``sink/``          ``format("minikafka")``: batch and streaming writers
``offline/``       ``format("minikafka-log")``: log directories without a broker
``pipelines/``     archive, replay, windows, audit, report
=================  ================================================================================================

Needs the extra: ``pip install 'minikafka[spark]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from minikafka.spark.java import NoJavaError
from minikafka.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from minikafka.spark.pipelines.archive import read_lake

__all__ = ["NoJavaError", "read_lake", "register", "start_session"]


def __getattr__(name: str) -> Any:
    """``read_lake``, which needs the extra ``lake``: so it is imported when somebody asks for it."""
    if name != "read_lake":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from minikafka.spark.pipelines.archive import read_lake
    except ModuleNotFoundError as error:
        raise ImportError(f"read_lake needs {error.name}; install it with: pip install 'minikafka[lake]'") from error
    return read_lake


def register(spark: SparkSession) -> None:
    """Register ``format("minikafka")`` and ``format("minikafka-log")`` with a session. Any thread may call this.

    A cloned session, like the one in ``foreachBatch``, inherits the formats. A session of ``spark.newSession()`` does
    not. No call is needed if the modules ``pyspark_minikafka*`` are installed for the Python of the driver's workers
    (``PYSPARK_PYTHON``): Spark finds them at its first look-up of a format, for every session. With it, Spark hands
    its filters on topic, partition, offset and timestamp to ``format("minikafka")``, which then reads less.
    """
    from minikafka.spark.offline import LogDataSource
    from minikafka.spark.source import FilteredDataSource

    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    spark.dataSource.register(FilteredDataSource)
    spark.dataSource.register(LogDataSource)
