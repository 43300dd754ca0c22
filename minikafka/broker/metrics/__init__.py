"""What a node shows of itself over HTTP (``metrics.listener``): metrics for Prometheus, and its health.

- ``endpoint``      the listener with /metrics, /healthz and /readyz
- ``collect``       a scrape: reads the counters and the state of the node's parts, in portions
- ``transactions``  its part about transactions
- ``exposition``    what was read as Prometheus' text, by the library prometheus_client, in portions
- ``health``        whether the node serves, and why not
- ``isr_changes``   counts replicas that leave and join ISRs
- ``loop_lag``      how late the event loop's timers fire

Names and types are in ``minikafka.metrics.catalogue``. Nothing here is on the way of a record: the hot path adds to
plain integers, and a scrape reads them.
"""
