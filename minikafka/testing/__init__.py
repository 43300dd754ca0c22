"""Clusters for the tests of your own application: real brokers, which a test may kill.

* ``with MiniKafka() as kafka:`` starts three brokers on free ports, and ends them (``kit``; ``reading``: its
  records; ``resetting``: begin anew; ``in_process``: its brokers as threads)
* the fixtures ``minikafka`` and ``minikafka_topic`` come with a plugin of pytest (``minikafka.pytest_plugin``)
* ``class TestOrders(MiniKafkaCase)`` is the same for unittest (``case``); what failing tests show: ``log_lines``
* ``minikafka run -- COMMAND`` is the same for tests in any language
"""

from __future__ import annotations

from minikafka.chaos.layout import ClusterError
from minikafka.testing.case import MiniKafkaCase
from minikafka.testing.kit import MiniKafka

__all__ = ["ClusterError", "MiniKafka", "MiniKafkaCase"]
