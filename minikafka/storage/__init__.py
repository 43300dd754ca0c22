"""Logs on disk, byte for byte as Apache Kafka lays them out.

===================  ===============================================================================================
``disk``             the port to a file system, and the operating system behind it
``scan``             batch headers, and checked batches, of a segment file in order
``index``            the sparse offset and time indexes; ``batch_index``: both of a segment, and what gets an entry
``segment``          one ``.log`` file: appending, finding a batch; ``tail``: where its newest batches begin;
                     ``segment_names``: of its files; ``segment_cache``: which closed ones keep something in memory
``segments``         the ordered segments of a log; ``segment_list``: the same on disk, to miss what is lost
``epochs``           the leader-epoch cache: start offset of each epoch, written and cut with the log (rows E1, E2)
``producer_state``   what each producer wrote last, open transactions; ``snapshots``: the same on disk
``checkpoints``      ``topic partition offset`` text files; ``directory_checkpoints``: those of one directory;
                     ``small_file``: a file that is replaced as a whole, by any thread
``durable_end``      up to where a log was synced, exactly; ``log_ends``: up to where each log was written, for a kill
``config``           the settings of one log
``log``              one partition's log, as a broker calls it: what its parts share, and how it fails. The parts:
``appending``        stage and commit; ``follower``: what a follower demands of fetched batches
``reading``          ``slice``: a region of a file with whole batches; ``timestamps``: from a time to an offset;
                     ``read_jobs``: what of it takes long, fit for a thread; ``verifying``: own bytes, read again
``cutting``          truncation, DeleteRecords, ``retention``; ``cut_job``: the slow part of a truncation;
                     ``rewinding``: producers after it
``flush``            making it durable, the slow part fit for a thread
``compaction``       the log cleaner: keeps the last value of each key. ``key_map``: where that is; ``cleaning``: what
                     it leaves of a batch
``recovery``         a partition directory -> loaded segments and state; ``leftovers``: what was under way;
                     ``damage``: torn tail or corruption; ``closed``: do believed segments end as they did;
                     ``impostors``: what has a name that it has no right to; ``aside``: it is kept under another;
                     ``presence``: are the files still there; ``last_stop``: how the last process ended
``log_dir``          one log directory: its lock and logs; ``identity``: whose it is; ``clean_shutdown``: the mark of
                     an orderly stop; ``found``: what a start finds in one; ``new_log``: making a log in one;
                     ``trash``: what is removed later
``log_store``        all logs of a node, in one or several directories
``moving``           a log on its way to another directory; ``future_logs``: the copies in one, on their way;
                     ``directory_names``: what they are called
``meta``             ``meta.properties`` and ``partition.metadata``
``registration``     what a node may claim when it registers anew; ``registration_file``: under which registration of
                     its broker a directory was written
``dump``             what the files hold, for people
===================  ===============================================================================================

Three rules hold everywhere here. Log data is written with raw system calls, never through a user-space buffer, so
what ``commit`` returned from survives the death of the process. Whatever lies below ``recovery_point`` is on stable
storage: the segment files, their directory entries, their indexes and the leader epochs that begin there; what lies
above is rebuilt from the batches themselves after an unclean stop. A failed write or fsync is final: the log, and its
directory, go offline (:class:`~minikafka.storage.errors.StorageFailure`).

Clocks are parameters: ``wall_ms`` stamps records and decides retention. Nothing here knows asyncio.
"""
