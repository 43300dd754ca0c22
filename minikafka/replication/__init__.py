"""Replication of one partition's log, as pure machines (rows R, E and D of the semantics; KIP-101, 227, 279, 903, 966).

::

    local_replica.py  LocalReplica: a replica on this node, its role, its condition, what of it counts
    replica_condition.py  ReplicaCondition: whether its log may be believed
    judging.py        Judge: which of two logs is damaged where they differ (row R26)
    replica_facts.py  what it is told, and what it may ask
    replica_effects.py  what it asks its driver to do
    leader.py         LeaderState: what followers have, high watermark, ISR; one per led partition
    progress.py       ReplicaProgress: what the leader knows of one follower (row R17)
    isr.py            InSyncReplicas: committed ISR, proposal in flight, maximal ISR (row R20)
    fetcher.py        ReplicaFetcher: truncate, fetch, apply; one per (source broker, fetcher id)
    fetch_state.py    PartitionFetchState: where one followed partition stands (row R2)
    fetch_states.py   FetchStates: all of them, by what is due
    effects.py        what a fetcher asks its driver to do
    epochs.py         what two logs have in common: fencing, divergence, where to truncate (rows E3, E5, E6)
    requests.py       epoch and offset look-ups as plain values
    fetch_session.py  FetchSessionClient: the asking side of incremental fetch sessions (KIP-227)
    session_cache.py  FetchSessionCache: the answering side, bounded, with eviction
    quota.py          ReplicationQuota: bytes per second over a sliding window

No module here reads a clock, draws a random number or does I/O: time arrives as ``now_ms`` (monotonic milliseconds),
randomness as ``rng``, logs through the small protocol :class:`~minikafka.replication.epochs.ReplicaLog`, and what is to
be done leaves as return values, to be carried out in the order given.
"""
