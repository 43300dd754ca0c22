"""Consumer groups of the newer protocol (KIP-848): the part of the group coordinator that is theirs.

====================== ========================================================================================
``group.py``           a group: its tables, states, epochs, and owners of partitions
``records.py``         the rows of the tables, as records of ``__consumer_offsets``
``formats.py``         keys and values of those records, as messages
``heartbeat.py``       ConsumerGroupHeartbeat: one request for everything
``admission.py``       who may be a member: the refusals
``steps.py``           what the heartbeat of one protocol and the JoinGroup of the other have in common
``classic_members.py`` JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic members
``conversion.py``      groups with members change their protocol
``leaving.py``         members that leave, expire, or do not give partitions up
``reconciliation.py``  the next step of a member towards its target assignment
``target.py``          making the target assignment
``question.py``        what it is made of, for a thread
``subscribed.py``      what all members subscribe to, counted
``assignors``          the server-side assignors, ``uniform`` and ``range``
``regexes.py``         subscriptions by regular expression
``change.py``          the records of one step, applied at once and written together
``topics.py``          the topics of the cluster, and their hash
``offsets.py``         who may commit and fetch offsets
``queries.py``         ConsumerGroupDescribe
====================== ========================================================================================

Offsets, writes, sessions and the life of a shard are those of :mod:`minikafka.groups`. The theory is in
docs/internals/consumer-groups.md.
"""
