"""The coordinator of classic consumer groups, as a pure machine, and its records in Kafka's own formats.

===================== ==========================================================================================
``coordinator.py``    :class:`~minikafka.groups.coordinator.GroupCoordinator`: all that a driver calls, and the
                      invariants; one per led partition of the offsets topic
``effects.py``        what it asks of the driver: respond, write, set and cancel timers
``settings.py``       limits and times, by Kafka's names
``partitioning.py``   which partition a group lives in
``group.py``          a group and its members; the states and their transitions
``shard.py``          the state of a coordinator, the outbox of a step, writes under way, replay
``joining.py``        JoinGroup: new, restarted and rejoining members
``rebalance.py``      from one generation to the next
``syncing.py``        SyncGroup: the assignment, given out when it is committed
``membership.py``     Heartbeat, LeaveGroup, sessions
``commits.py``        OffsetCommit, OffsetFetch, OffsetDelete
``offset_fetch.py``   the two shapes of OffsetFetch
``deletion.py``       DeleteGroups, deleted topics, retention
``queries.py``        ListGroups, DescribeGroups
``loading.py``        how a shard begins and ends
``answers.py``        refusals, and errors of failed appends
``records.py``        the records of ``__consumer_offsets``
``subscriptions.py``  which topics a group subscribes to
``assignors.py``      range, round robin and cooperative sticky, for our own client
===================== ==========================================================================================

The rule is "command -> (records, response); what is persisted changes in replay only; the response is parked until the
records are committed". Requests and responses are the wire's own message classes.
"""
