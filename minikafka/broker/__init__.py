"""One node: everything assembled.

- ``run``, ``__main__``   the process: configuration, signals, exit status
- ``node``                the composition root: one node's parts, wiring and life
- ``ports``               what it stands on: settings, time, randomness, disk, threads
- ``control_plane``, ``data_plane``, ``services``   its parts in three groups, and how they are built
- ``listeners``           the three ways in
- ``dispatch``            frame -> handler -> reply; ``context`` says where a request came from
- ``handlers``            one module per API; ``parts`` gives it what it needs of the node
- ``staging``, ``topic_encodings``   what is written at the end of a read event; answers kept for the next request
- ``partition``           one local replica: its log, settings and machine
- ``replicas``            all of them, with the purgatories
- ``delayed``             the operations that wait: produce for replicas, fetch for bytes
- ``drivers``             asyncio around the pure machines
- ``log_jobs``            syncs and cuts of logs off the loop, for each log one at a time
- ``maintenance``         checkpoints, ISR checks, retention, flushing, compaction
- ``losses``              acknowledged records that are gone, written down for people
- ``absences``            brokers that have just gone, as clients should hear of them
- ``liveness``            whether other nodes' processes are still there
- ``threads``             threads for what blocks, by purpose
- ``supervision``         loops that outlive what the world does to them
- ``topic_creation``      topics that are created on first use
- ``producer_ids``, ``quorum``   ids from the controller; what the metadata quorum looks like
- ``quotas``, ``descriptors``    bounds: bytes a second of replication, open files
- ``lookups``             what lies inside batches, looked at in threads
- ``pacing``              long lists in small portions
- ``loop_watch``          finds turns of the loop that take long
- ``timers``, ``clock``, ``backoff``, ``logs``   time, retries, logging
"""
