"""Beside Apache Kafka and librdkafka's mock cluster: the same load, by turns, in one run.

``generator`` is the load: a small program in C over librdkafka (``generator.c``), compiled when it is wanted. ``sides``
are the clusters that take turns, ``turns`` what is measured of one. What is compared: ``small`` requests of one record,
``batches``, and the ``latency`` of a load that leaves time.
"""
