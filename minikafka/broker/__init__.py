"""One node: everything assembled.

- ``run``, ``__main__``   the process: configuration, signals, exit status
- ``node``                the composition root: wiring, start and stop of one node
- ``ports``               inputs of a node: settings, time, randomness, disk, threads
- ``control_plane``, ``data_plane``, ``services``   its parts in three groups, and their construction
- ``listeners``           the listeners: CONTROLLER, REPLICATION, CLIENT and others for clients
- ``dispatch``            frame -> handler -> reply; ``context`` has the origin of a request
- ``handlers``            one module per API; ``parts`` gives each the parts of the node that it needs
- ``staging``, ``topic_encodings``   batches to write at the end of a read event; encoded topics kept for later answers
- ``partition``           one local replica: its log, settings and machine
- ``replicas``            all local replicas, with the purgatories
- ``delayed``             waiting operations: produce for replicas, fetch for bytes
- ``drivers``             asyncio around the pure machines
- ``log_jobs``            syncs and cuts of logs off the loop, one at a time per log
- ``maintenance``         checkpoints, ISR checks, retention, flushing, compaction
- ``losses``              the file of lost acknowledged records
- ``absences``            brokers that have just died, in answers to Metadata
- ``liveness``            probes whether other nodes' processes are alive
- ``threads``             thread pools for blocking work, by purpose
- ``supervision``         restarts failed loops
- ``topic_creation``      creation of topics on first use
- ``producer_ids``, ``quorum``   producer ids from the controller; description of the metadata quorum
- ``quotas``, ``descriptors``    bounds: bytes per second of replication, open files
- ``long_answers``        answers of many portions, one at a time
- ``lookups``             reads inside batches, and cold reads, in threads
- ``pacing``              long lists in small portions
- ``loop_watch``          logs turns of the loop that take long
- ``timers``, ``clock``, ``backoff``, ``logs``   time, retries, logging
"""
