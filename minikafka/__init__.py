"""minikafka: a Kafka-compatible broker cluster in Python that you can install, watch and break.

The packages, lowest first (each may import those before it): ``event_log``, ``errors``, ``model``, ``config``,
``wire``, ``records``, ``coordination | sasl | security``, the pure machines ``raft | metadata | replication | groups |
transactions | timing | ledger | metrics | plots``, the I/O ``net | storage``, the assembled ``broker | client``, what
is built on them ``spark | chaos``, ``testing`` on these, and ``cli | pytest_plugin``. ``docs/architecture.md`` is the
map.
"""

__version__ = "0.1.0"
