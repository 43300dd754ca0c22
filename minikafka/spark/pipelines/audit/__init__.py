"""Was anything lost? Joins what was acknowledged with what is there, for histories larger than memory.

``audit(spark, "histories/", ["orders"], bootstrap_servers="127.0.0.1:19092")`` judges by the rules of
``minikafka.ledger.checker``, and comes to the same verdict as ``check`` does on the same events. Everything is a
DataFrame that spills to disk; what the driver sees are counts per partition and a few examples.

* ``history``  files of events -> items, one for each record that an event names; damaged files are refused
* ``stored``   what is in the topics, a log directory or a lake, as items too: one more reader, which reads all
* ``readers``  who read to the end: only they can tell what was lost
* ``tables``   the items brought together: by record, by offset, by what a process saw one after another
* ``rules``    each rule over those tables: when it is broken, and how to say so
* ``verdict``  what comes out
* ``auditing`` the order of the work

A record's id in the history must be computed from the record that is stored: by :data:`IDENTITY`, or by another SQL
expression over the source's columns.
"""

from __future__ import annotations

from minikafka.spark.pipelines.audit.auditing import audit
from minikafka.spark.pipelines.audit.stored import (
    IDENTITY,
    log_starts_in_topics,
    stored_in_lake,
    stored_in_logs,
    stored_in_topics,
)
from minikafka.spark.pipelines.audit.verdict import AuditVerdict, PartitionVerdict

__all__ = [
    "IDENTITY",
    "AuditVerdict",
    "PartitionVerdict",
    "audit",
    "log_starts_in_topics",
    "stored_in_lake",
    "stored_in_logs",
    "stored_in_topics",
]
