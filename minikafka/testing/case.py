"""A cluster for the tests of a class of unittest."""

from __future__ import annotations

import unittest
from collections.abc import Mapping
from typing import ClassVar

from minikafka.testing.kit import MiniKafka, Setting


class MiniKafkaCase(unittest.TestCase):
    """``self.kafka`` is a cluster for all tests of the class; each finds it healed."""

    brokers: ClassVar[int] = 3
    settings: ClassVar[Mapping[str, Setting]] = {}
    in_process: ClassVar[bool] = False
    secure: ClassVar[bool] = False
    kafka: ClassVar[MiniKafka]

    @classmethod
    def setUpClass(cls) -> None:
        """Start it."""
        super().setUpClass()
        kafka = MiniKafka(cls.brokers, settings=cls.settings, in_process=cls.in_process, secure=cls.secure)
        cls.kafka = cls.enterClassContext(kafka)

    def setUp(self) -> None:
        """Mend what an earlier test broke."""
        super().setUp()
        self.kafka.heal()
