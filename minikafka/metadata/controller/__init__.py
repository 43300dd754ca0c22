"""The active controller: a pure machine that turns requests into metadata records (row C1, C2).

Map:

* ``controller``     :class:`Controller`: activation, the table of requests, ticks
* ``state``          what all parts work on: the image being built, the sessions, the node's settings
* ``sessions``       who was heard from, and when
* ``brokers``        registration, heartbeats, fencing, controlled shutdown
* ``standing``       what a broker is good for
* ``partition_change``  the rule: who leads, who is in sync, who may lead later; assignments
* ``partitions``     when the rule is applied: a broker's change of standing, what leaders propose
* ``reassignments``  partitions move from brokers to brokers
* ``directories``    in which log directory each replica is, and what the failure of one takes
* ``elections``      leaders on request, and preferred leaders by themselves
* ``topics``         creation, deletion, more partitions
* ``assignment``     where replicas go: spread over brokers and racks
* ``configs``        settings of topics and dynamic settings of brokers
* ``producer_ids``   blocks of producer ids

Requests and responses are the wire's own message classes; ``minikafka.wire.forwarded`` says how they travel.
"""
