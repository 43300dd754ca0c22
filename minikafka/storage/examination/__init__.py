"""Looks at the files of log directories without changing any, for ``minikafka log verify``.

* ``findings``   what is found: damage, what a start mends, notes
* ``facts``      what the small files of a log directory say of its logs, and whether a node runs on them
* ``partition``  the files of one log, in one pass over its batches
* ``segment``    the batches of one segment, and its indexes
* ``producers``  producer snapshots and aborted transactions, against the batches
* ``directory``  a log directory: its own files, then each log

Files are read with the same readers as at a start. What a start would do about them is said, and not done.

Beside a running node, and after a kill, not everything can be judged: what is newer than the recovery point may not be
in indexes and small files yet, and the last write may be under way. Such things are no findings.
"""

from minikafka.storage.examination.directory import examine_directory, is_log_directory
from minikafka.storage.examination.facts import DirectoryFacts, read_facts
from minikafka.storage.examination.findings import Finding, Findings, Severity
from minikafka.storage.examination.partition import examine_partition

__all__ = [
    "DirectoryFacts",
    "Finding",
    "Findings",
    "Severity",
    "examine_directory",
    "examine_partition",
    "is_log_directory",
    "read_facts",
]
