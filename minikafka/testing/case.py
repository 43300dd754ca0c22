"""A cluster for the tests of a class of unittest."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from minikafka.testing.kit import MiniKafka, Setting
from minikafka.testing.log_lines import LogLines


class MiniKafkaCase(unittest.TestCase):
    """``self.kafka`` is a cluster for all tests of the class; each finds it healed.

    One that fails shows what the brokers logged since it began, and which are not up.
    """

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

    def _callTestMethod(self, method: Callable[[], Any]) -> Any:  # noqa: N802 - unittest's; it has no other place for it
        lines = LogLines(self.kafka)
        try:
            return super()._callTestMethod(method)  # type: ignore[misc]
        except unittest.SkipTest:
            raise
        except Exception as error:
            for title, text in lines.sections():
                error.add_note(f"{title}:\n{text}")
            raise
