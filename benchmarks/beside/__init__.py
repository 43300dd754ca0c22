"""Beside Apache Kafka and librdkafka's mock cluster: the same load, by turns, in one run.

``generator`` is the load: a small program in C over librdkafka (``generator.c``), compiled when it is wanted. ``sides``
are the clusters that take turns, ``turns`` what is measured of one. What is compared:

* ``starting``   start-up, memory and idle CPU
* ``small``      requests of one record
* ``batches``    throughput in batches
* ``mock``       the same with one copy, beside librdkafka's mock cluster
* ``latency``    latency of a load that leaves time
* ``consuming``  records read from memory and from the disk
* ``growth``     what idle partitions and connections cost
* ``outages``    pauses when a leader is killed, stopped or paused
"""
