"""Event-time windows: records of a topic, aggregated by key and window, as JSON records of another topic.

==================  =================================================================================================
``spec``            keys, windows and aggregates from words (pure)
``plan``            what Spark is to do with records, and what a result looks like
``json_fields``     the fields of ``json``: told, or learnt from a sample
``checkpoint``      what a checkpoint belongs to, so that another query does not take it over
``query``           the streaming query: started, watched, resumed; its summary
==================  =================================================================================================

``run_windows(spark, "events", to="totals", windows=Windows.parse(key=["json.user"], window="10s"), ...)`` runs one;
``windowed(records, windows)`` is its plan for a DataFrame of yours, streaming or not.

State lives in RocksDB, on the executors' disks, and its changes in the checkpoint: after ``kill -9`` of the driver or
of an executor the query goes on where its checkpoint ends. A batch that was under way is done again with the same
offsets and the same state, so its results are the same: some may be in the target topic twice, with equal keys and
values, and with the sink's origin header that tells them from others.

Time goes on with the records alone: in a topic where nothing comes any more the last windows stay open, and with
``Emit.FINAL`` their results are not written before newer records have come.
"""

from minikafka.spark.pipelines.windows.plan import windowed
from minikafka.spark.pipelines.windows.query import WindowsSummary, run_windows
from minikafka.spark.pipelines.windows.spec import Emit, Windows

__all__ = ["Emit", "Windows", "WindowsSummary", "run_windows", "windowed"]
