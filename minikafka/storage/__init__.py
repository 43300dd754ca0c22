"""Logs on disk, byte for byte as Apache Kafka lays them out.

===================  ===============================================================================================
``disk``             the port to a file system, and the operating system behind it; ``preallocation``: room for a file
``scan``             batch headers, and checked batches, of a segment file in order
``index``            the sparse offset and time indexes; ``batch_index``: both of a segment, and the rule for entries
``segment``          one ``.log`` file: appending, sealing, its indexes; ``positions``: finding its batches; ``tail``:
                     those of its newest batches; ``verified``: which of its bytes were; ``segment_names``: file names;
                     ``segment_cache``: closed segments with something in memory
``segments``         the ordered segments of a log; ``segment_list``: the same on disk, to notice lost ones
``epochs``           the leader-epoch cache: start offset of each epoch, written and cut with the log (rows E1, E2)
``producer_state``   last batches of each producer, open transactions; ``snapshots``: the same on disk
``first_batches``    first batches of producers that may be refused for now
``aborted``          look-ups of aborted transactions; ``transaction_index``: those of a segment; ``known_aborted``:
                     what tells whether that must be read
``checkpoints``      ``topic partition offset`` text files; ``directory_checkpoints``: those of one directory;
                     ``small_file``: a file that is replaced as a whole, by any thread
``durable_end``      the exact synced end of a log; ``log_ends``: the written end of each log, for a start after a kill
``config``           the settings of one log
``log``              one partition's log, for the broker: shared state of its parts, and failures. The parts:
``appending``        stage and commit; ``follower``: checks of fetched batches
``reading``          ``slice``: whole batches, in a file or in memory; ``timestamps``: from a time to an offset;
                     ``read_jobs``: slow reads, for a thread; ``verifying``: verification of bytes, once and again
``cutting``          truncation, DeleteRecords, ``retention``; ``cut_job``: the slow part of a truncation;
                     ``rewinding``: producer state after it
``flush``            syncs, with a slow part for a thread
``compaction``       the log cleaner: keeps the last value of each key. ``key_map``: last offset of each key;
                     ``cleaning``: records of a batch that stay; ``cleaned_transactions``: what it knows of transactions
``recovery``         a partition directory -> loaded segments and state; ``leftovers``: unfinished compactions and
                     deletions; ``damage``: torn tail or corruption; ``closed``: checks of closed segments' ends;
                     ``evidence``: what else is known of the batches; ``last_stop``: the end of the last process;
                     ``impostors``: foreign files with a log's names; ``aside``: their new names;
                     ``presence``: checks for removed files
``log_dir``          one log directory: its lock and logs; ``identity``: its owner; ``clean_shutdown``: the mark of a
                     clean stop; ``found``: directories found at a start; ``new_log``: creation of logs
``log_store``        all logs of a node, in one or several directories
``replica_moves``    moves of logs to another directory; ``moving``: the copying; ``arriving``: their end;
                     ``future_logs``: the copies in a directory; ``directory_names``: names of logs, copies, strays and
                     deleted logs
``trash``            what was deleted, until its files go
``meta``             ``meta.properties`` and ``partition.metadata``
``registration``     claims of a node's next registration; ``registration_file``: the registration in which a directory
                     was last used
``dump``             content of the files, for people; ``examination``: damage in them, without a node
===================  ===============================================================================================

Three rules hold everywhere. (1) Log data is written with raw system calls, never through a user-space buffer: committed
batches survive the process. (2) Everything below ``recovery_point`` is on stable storage: segment files, their
directory entries, their indexes and the leader epochs that begin there. Everything above is rebuilt from the batches
after an unclean stop. (3) A failed write or fsync is final: the log and its directory go offline
(:class:`~minikafka.storage.errors.StorageFailure`).

Clocks are parameters: ``wall_ms`` stamps records and decides retention. Nothing here knows asyncio.
"""
