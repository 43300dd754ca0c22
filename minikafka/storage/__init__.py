"""Logs on disk, byte for byte as Apache Kafka lays them out.

==================  ================================================================================================
``disk``            the port to a file system, and the operating system behind it
``scan``            batch headers (and checked batches) of a segment file, in order
``index``           sparse offset and time indexes of a segment
``segment``         one ``.log`` file with its indexes; finding a batch by offset
``segments``        the ordered segments of a log
``epochs``          leader-epoch cache (rows E1, E2)
``producer_state``  what each idempotent producer wrote last; open transactions; snapshots
``checkpoints``     ``topic partition offset`` text files of a directory
``recovery``        a partition directory -> loaded segments and state, after a clean or an unclean stop
``config``          the settings of one log
``log``             one partition's log: append, read, truncate, flush
``flush``           the part of a flush that may run in a thread
``timestamps``      from a time to an offset
``retention``       which old segments may go
``compaction``      the cleaner: keeps the last value of each key
``log_dir``         one log directory: lock, identity, checkpoints, its logs
``log_store``       all logs of a node, in one or several directories
``meta``            ``meta.properties`` and ``partition.metadata``
``dump``            what a segment file holds, for people
==================  ================================================================================================

Three rules hold everywhere here. Log data is written with raw system calls, never through a user-space buffer, so
what ``commit`` returned from survives the death of the process. Whatever lies below ``recovery_point`` is on stable
storage: the segment files, their directory entries, their indexes and the leader epochs that begin there; what lies
above is rebuilt from the batches themselves after an unclean stop. A failed write or fsync is final: the log, and its
directory, go offline (:class:`~minikafka.storage.errors.StorageFailure`).

Clocks are parameters: ``wall_ms`` stamps records and decides retention. Nothing here knows asyncio.
"""
