"""A lake, CSV files or JSON lines back to a topic: ``replay(spark, "lake", to="orders-again", ...)``.

What is replayed has sources, each with an order: the partitions of a lake, by offset; files, by row. A task writes the
records of a source one after another, by an idempotent producer, so that in each partition of the topic they are in the
order of their source.

Each record bears a mark, the header ``minikafka.replay``: which replay, which source, which place in it (``marks``).
When a replay begins it reads the marks that are in the topic, and writes what is not there yet. So the topic itself
knows how far a replay came; one that was killed goes on, one that had come to its end adds only what is new in the
lake. Nothing is lost. Only what a dead session's task still had on its way when its successor read the marks can be
written twice (so the successor waits until the topic stands still for a moment); the marks of such records are equal.

* ``marks``      the header
* ``sources``    a lake, CSV, JSON lines -> rows to be written
* ``parsing``    lines of files -> records to be
* ``lines``      files of lines, in order: what tasks read
* ``writing``    what tasks write
* ``replaying``  the order of the work
"""

from __future__ import annotations

from minikafka.spark.pipelines.replay.replaying import Replayed, replay

__all__ = ["Replayed", "replay"]
