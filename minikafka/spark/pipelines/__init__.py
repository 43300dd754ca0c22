"""Pipelines over topics. Each is a function for a notebook, and a verb: ``minikafka pipeline NAME``.

``archive`` (topics to a lake of Parquet files, each offset once), ``replay`` (back again), ``windows`` (event-time
windows), ``audit`` (was anything lost?), ``report`` (what is in a topic?). ``running`` is what they share: progress,
stopping, and errors in a line; ``topics`` is what they ask a cluster before Spark's work begins.
"""
