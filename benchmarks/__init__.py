"""What the cluster can do, measured: ``python -m benchmarks [NAME...]``.

``README.md`` holds the figures. Each of these starts its own cluster in a temporary directory, on free ports, and kills
it at the end:

* ``start``           three nodes, from the command to ready
* ``idle``            memory and CPU of a node that has nothing to do
* ``failover``        from the SIGKILL of a leader to the next acknowledged write, as the cluster can do it
* ``producer_gap``    the same as a librdkafka producer lives through it
* ``rejoin``          from a node's restart to full in-sync replicas
* ``kill_all``        from the restart of all nodes to the next acknowledged write
* ``replication``     throughput with three copies against one
* ``small_requests``  what a request of one record costs the broker
* ``rebalance``       what a rebalance costs the group coordinator, in both protocols
* ``fetching``        what reading costs the broker
* ``transactions``    what they can do, also against Apache Kafka (a package)
* ``demo``            how long the demonstration takes

They share ``report`` (figures, targets, tables), ``machine`` (CPU, memory and who else is using them), ``clusters``
(one for a benchmark), ``apache_kafka`` (three nodes to compare with), ``bare`` (a client without any machinery) and
``traffic`` (a producer that never stops).

``wire.py``, ``records.py`` and ``timing.py`` measure single functions; each is a program of its own.
"""
