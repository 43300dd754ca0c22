"""The one active controller: a pure machine that turns requests into durable metadata records (rows C1, C2).

Map:

* ``controller``     :class:`Controller`: activation, the table of requests, ticks
* ``state``          shared state of all parts: the image being built, the sessions, the node's settings
* ``sessions``       time of each broker's last heartbeat
* ``brokers``        registration, heartbeats, fencing, controlled shutdown
* ``standing``       what a broker may do: lead, be in sync, take replicas
* ``partition_change``  the rule of a partition: leader, ISR, ELR; reassignment
* ``partitions``     uses of the rule: a broker's standing changed, a leader proposes an ISR
* ``reassignments``  reassignment of partitions to other brokers
* ``directories``    log directory of each replica, and failed directories
* ``elections``      elections on request, and of preferred leaders
* ``balancing``      times of the elections of preferred leaders
* ``topics``         creation, deletion, more partitions
* ``assignment``     placement of replicas, spread over brokers and racks
* ``configs``        settings of topics and dynamic settings of brokers
* ``client_quotas``  bounds on what clients may ask
* ``scram``          SCRAM credentials of users
* ``acls``           who may do what
* ``producer_ids``   blocks of producer ids
* ``features``       levels of features

Requests and responses are the wire's own message classes; ``minikafka.wire.forwarded`` says how they travel.
"""
