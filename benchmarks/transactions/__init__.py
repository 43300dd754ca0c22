"""What transactions can do, measured: ``python -m benchmarks transactions``, or one of its parts.

* ``copying``   a topic copied in transactions, with their offsets, against Apache Kafka
* ``visible``   from EndTxn to the records at a read_committed consumer
* ``failover``  from the SIGKILL of a coordinator's node to a producer's next commit
* ``many``      memory and failover of coordinators of many ids

What they cost producers that use none: ``small_requests``.
"""
