"""A lake, CSV files or JSON lines back to a topic: ``replay(spark, "lake", to="orders-again", ...)``.

A replay has sources, each with an order: the partitions of a lake, by offset; files, by row. A task writes the records
of a source in order, with an idempotent producer: so each partition of the topic has them in the order of their source.

Each record has a mark, the header ``minikafka.replay`` (``writing``). A replay first reads the marks in the topic, and
writes only missing records. So the topic itself has the progress of a replay: a killed one goes on, a complete one adds
only new records of the lake. No record is lost. A record may be written twice only if a dead session's task had it
under way when its successor read the marks. So the successor waits until the topic stands still for a moment. The marks
of such records are equal.

* ``sources``    a lake, CSV, JSON lines -> rows to write: the input of tasks
* ``parsing``    lines of files -> records to write
* ``writing``    the output of tasks
* ``replaying``  the order of the work
"""

from __future__ import annotations

from minikafka.spark.pipelines.replay.replaying import Replayed, replay

__all__ = ["Replayed", "replay"]
