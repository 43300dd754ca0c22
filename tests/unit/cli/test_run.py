"""How a verb ends that somebody interrupts."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest

from minikafka.cli.run import let_other_signals_interrupt


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_other_signals_are_as_ctrl_c(number: signal.Signals) -> None:
    """A terminal that was closed while `minikafka run` started a cluster left the files of that."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
    let_other_signals_interrupt()
    with pytest.raises(KeyboardInterrupt):
        signal.raise_signal(number)


def test_a_verb_that_is_to_go_on_without_its_terminal_does_so() -> None:
    """As ``nohup`` wants it."""
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    let_other_signals_interrupt()
    signal.raise_signal(signal.SIGHUP)
