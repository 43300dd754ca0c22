"""A cluster for the tests of a class of unittest."""

from __future__ import annotations

import unittest
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, ClassVar, Final

from minikafka.testing.kit import MiniKafka, Setting
from minikafka.testing.log_lines import LogLines

__unittest: Final = True
"""Tracebacks of tests are without what is here: unittest would cut them off behind it, before the line that fails."""


class MiniKafkaCase(unittest.TestCase):
    """``self.kafka`` is a cluster for all tests of the class; each finds it healed.

    One that fails shows what the brokers logged since it began, and which are not up.
    """

    brokers: ClassVar[int] = 3
    broker_settings: ClassVar[Mapping[str, Setting]] = {}
    """Not ``settings``: Django's test cases have a method of that name."""
    in_process: ClassVar[bool] = False
    secure: ClassVar[bool] = False
    kafka: ClassVar[MiniKafka]
    _lines: LogLines | None = None

    @classmethod
    def setUpClass(cls) -> None:
        """Start it."""
        super().setUpClass()
        kafka = MiniKafka(cls.brokers, settings=cls.broker_settings, in_process=cls.in_process, secure=cls.secure)
        cls.kafka = cls.enterClassContext(kafka)

    def setUp(self) -> None:
        """Mend what an earlier test broke."""
        super().setUp()
        self.kafka.heal()

    def _callTestMethod(self, method: Callable[[], Any]) -> Any:  # noqa: N802 - unittest's; it has no other place for it
        self._lines = LogLines(self.kafka)
        with self._logs_shown(self._lines):
            return super()._callTestMethod(method)  # type: ignore[misc]

    @contextmanager
    def subTest(self, *words: Any, **params: Any) -> Iterator[None]:  # noqa: N802
        """As unittest's; one that fails shows the same."""
        with super().subTest(*words, **params), self._logs_shown(self._lines or LogLines(self.kafka)):
            yield

    @staticmethod
    @contextmanager
    def _logs_shown(lines: LogLines) -> Iterator[None]:
        try:
            yield
        except unittest.SkipTest:
            raise
        except Exception as error:
            for title, text in lines.sections():
                error.add_note(f"{title}:\n{text}")
            raise
