"""The coordinator of consumer groups: a pure machine, and its records in Kafka's formats.

============================ ===========================================================================================
``coordinator.py``           :class:`~minikafka.groups.coordinator.GroupCoordinator`: all calls of a driver, and the
                             invariants; one per led partition of the offsets topic
``timers.py``                keys of the timers
``settings.py``              limits and times, by Kafka's names
``offsets.py``               committed offsets of a group, and those of open transactions
``group.py``                 a group and its members; the states and their transitions
``shard.py``                 the state of a coordinator, the outbox of a step, replay
``writes.py``                writes under way
``memory.py``                what members and offsets of all groups take together
``joins.py``                 JoinGroup requests, as groups of either protocol serve them
``joining.py``               JoinGroup: new, restarted and rejoining members
``rebalance.py``             from one generation to the next
``syncing.py``               SyncGroup: the assignment, given out when it is committed
``membership.py``            Heartbeat, LeaveGroup, sessions
``commits.py``               OffsetCommit, OffsetFetch, OffsetDelete
``transactional_offsets.py`` TxnOffsetCommit, and the ends of transactions
``offset_fetch.py``          the two shapes of OffsetFetch
``deletion.py``              DeleteGroups, deleted topics, retention
``queries.py``               ListGroups, DescribeGroups
``loading.py``               begin and end of a shard
``answers.py``               refusals, and errors of failed appends
``records.py``               the records of ``__consumer_offsets``
``effects.py``               what its driver is to do
``consumer``                 groups of the newer protocol (KIP-848); all other modules of members are for classic groups
``subscriptions.py``         the topics of a subscription
``assignors.py``             range, round robin and cooperative sticky, for our own client
============================ ===========================================================================================

Its effects, its phases, and the partition of a group are in :mod:`minikafka.coordination`. Requests and responses are
the wire's own message classes.
"""
