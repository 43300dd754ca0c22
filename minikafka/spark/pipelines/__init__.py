"""Pipelines over topics. Each is a function for a notebook, and a verb: ``minikafka pipeline NAME``.

``archive`` (topics to a lake of Parquet files, each offset once), ``replay`` (back again), ``windows`` (event-time
windows), ``audit`` (was anything lost?), ``report`` (what is in a topic?). ``running`` has their common parts:
progress, stop, errors of one line. ``topics`` asks the cluster before Spark's work begins. ``parts`` has rows that
a function reads.
"""
