"""Topics as Spark DataFrames, in batch and streaming, in and out, and pipelines made of them.

``start_session("job")`` starts a Spark that knows them; in a session of your own, ``register(spark)`` does.

=================  ================================================================================================
``java``           which Java Spark runs on
``session``        a session for this machine or a cluster
``shared_classes`` an archive of Spark's classes, with which it starts faster
``typical_jobs``   what is run to learn which classes these are
``daemon``         PySpark's, which forks the Python workers of a session on this machine
``options/``       what ``.option(...)`` understands, as declared rows
``columns/``       record batches <-> Arrow, without a Python object for a record
``cluster``        the client, synchronous, one for a process; ``loop``: the thread on which it runs
``clients``        the clients it is made of; ``pool``: those that are connected; ``writer``: batches of one task
``topics``         which topics there are, and whether they are the same as before
``gaps``           whether a log has a record where one is waited for
``source/``        ``format("minikafka")``: batch and streaming readers, planning of offsets
``sink/``          the writers
``offline/``       ``format("minikafka-log")``: log directories without a broker
``pipelines/``     archive, replay, windows, audit, report
=================  ================================================================================================

Needs the extra: ``pip install 'minikafka[spark]'``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from minikafka.spark.java import NoJavaError
from minikafka.spark.session import start_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["NoJavaError", "register", "start_session"]


def register(spark: SparkSession) -> None:
    """Make ``format("minikafka")`` and ``format("minikafka-log")`` known to a session, from any thread.

    Sessions cloned from it, as the one in ``foreachBatch`` is, know them too; ``spark.newSession()`` does not by this.
    No call is needed where Spark finds the modules ``pyspark_minikafka*``: every session knows the formats if they are
    installed for the Python of the driver's workers (``PYSPARK_PYTHON``) when Spark first looks for a format.
    """
    from minikafka.spark.offline import LogDataSource
    from minikafka.spark.source import MinikafkaDataSource

    spark.dataSource.register(MinikafkaDataSource)
    spark.dataSource.register(LogDataSource)
