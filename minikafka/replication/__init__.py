"""Replication of one partition's log, as pure machines (rows R, E and D of the semantics; KIP-101, 227, 279, 903, 966).

::

    local_replica.py  LocalReplica: a replica on this node, its role, its condition, its high watermark
    replica_condition.py  ReplicaCondition: whether its log can be trusted
    judging.py        Judge: which of two different logs is the damaged one (row R26)
    replica_facts.py  inputs of a LocalReplica
    replica_effects.py  effects of a LocalReplica, for its driver
    leader.py         LeaderState: progress of followers, high watermark, ISR; one per led partition
    progress.py       ReplicaProgress: one follower's log end and lag, as the leader knows them (row R17)
    isr.py            InSyncReplicas: committed ISR, proposal in flight, maximal ISR (row R20)
    fetcher.py        ReplicaFetcher: truncate, fetch, apply; one per (source broker, fetcher id)
    lookups.py        its look-ups at the leader: EpochLookup, EndsLookup (rows R4, R13, E5)
    fetch_state.py    PartitionFetchState: fetch offset, epoch and delay of one followed partition (row R2)
    fetch_states.py   FetchStates: all of them, by the work that is due
    effects.py        effects of a fetcher, for its driver
    epochs.py         the common part of two logs: fencing, divergence, truncation (rows E3, E5, E6)
    fetch_session.py  FetchSessionClient: the asking side of incremental fetch sessions (KIP-227)
    server_session.py  FetchSession: the answering side, and what of it a fetch has to look at
    session_cache.py  FetchSessionCache: all sessions of a server, bounded, with eviction
    quota.py          ReplicationQuota: bytes per second over a sliding window

No module here reads a clock, draws a random number or does I/O. Time arrives as ``now_ms`` (monotonic milliseconds),
randomness as ``rng``, a log as :class:`~minikafka.replication.epochs.ReplicaLog`. Effects are returned, and the driver
carries them out in the order given.
"""
