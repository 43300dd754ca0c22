"""Event-time windows: records of a topic, aggregated by key and window, as JSON records of another topic.

==================  =================================================================================================
``spec``            keys, windows and aggregates from words (pure)
``plan``            Spark's plan for records, the fields of ``json``, and the form of a result
``checkpoint``      the query of a checkpoint, so that no other query uses it
``query``           the streaming query: started, watched, resumed; its summary
==================  =================================================================================================

``run_windows(spark, "events", to="totals", windows=Windows.parse(key=["json.user"], window="10s"), ...)`` runs one;
``windowed(records, windows)`` is its plan for a DataFrame of yours, streaming or not.

State lives in RocksDB, on the executors' disks, and its changes in the checkpoint: after ``kill -9`` of the driver or
of an executor the query goes on where its checkpoint ends. The interrupted batch is repeated with the same offsets and
the same state, so it has the same results. Some may be in the target topic twice, with equal keys and values, and with
the sink's origin header, which identifies them.

Only records move the time: in a topic without new records the last windows stay open, and with ``Emit.FINAL`` their
results wait for newer records.
"""

from minikafka.spark.pipelines.windows.plan import windowed
from minikafka.spark.pipelines.windows.query import WindowsSummary, run_windows
from minikafka.spark.pipelines.windows.spec import Emit, Windows

__all__ = ["Emit", "Windows", "WindowsSummary", "run_windows", "windowed"]
