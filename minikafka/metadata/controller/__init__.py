"""The active controller: a pure machine that turns commands into metadata records (row C1, C2).

Map:

* ``commands``       what is asked and answered, and how it travels
* ``controller``     :class:`Controller`: activation, the table of commands, ticks
* ``state``          what all parts work on: the image being built, the sessions, the node's settings
* ``sessions``       who was heard from, and when
* ``brokers``        registration, heartbeats, fencing, controlled shutdown
* ``partitions``     leaders and ISRs: the rule, what a broker's change of standing does, what leaders propose
* ``elections``      leaders on request, and preferred leaders by themselves
* ``topics``         creation, deletion, more partitions
* ``assignment``     where replicas go: spread over brokers and racks
* ``configs``        settings of topics and dynamic settings of brokers
* ``producer_ids``   blocks of producer ids
"""
