"""Was anything lost? Joins what was acknowledged with what is there, for histories larger than memory.

``audit(spark, "histories/", ["orders"], bootstrap_servers="127.0.0.1:19092")`` judges by the rules of
``minikafka.ledger.checker``, and comes to the same verdict as ``check`` does on the same events. Everything is a
DataFrame that spills to disk; what the driver sees are counts per partition and a few examples.

* ``history``  files of events -> items, one for each record in an event; damaged files are refused
* ``stored``   the records of topics, log directories or a lake as items: one more reader, which gets all
* ``readers``  consumers that read to the end: only they can tell losses
* ``tables``   the items grouped by record, by offset, and by process in order
* ``rules``    the rules over those tables, as rows: a violation with its sentence
* ``verdict``  the judgement
* ``auditing`` the order of the work

The stored record must give the id that it has in the history: by :data:`IDENTITY`, or by another SQL expression over
the source's columns.
"""

from __future__ import annotations

from minikafka.spark.pipelines.audit.auditing import audit
from minikafka.spark.pipelines.audit.stored import IDENTITY, log_starts_in_topics, stored_in_logs, stored_in_topics
from minikafka.spark.pipelines.audit.verdict import AuditVerdict, PartitionVerdict

__all__ = [
    "IDENTITY",
    "AuditVerdict",
    "PartitionVerdict",
    "audit",
    "log_starts_in_topics",
    "stored_in_logs",
    "stored_in_topics",
]
