"""What the coordinators of groups and of transactions have in common: shards, each a partition of an internal topic.

=================== =============================================================================
``phase.py``        the life of a shard
``effects.py``      orders to its driver: respond, write, set and cancel timers
``partitioning.py`` the shard of a group or of a transactional id
=================== =============================================================================

The rule: command -> (records, response). Persisted state changes only once the records are committed, and only then is
the response given out; so the state is the same on the next leader, which replays the log.
"""
