from __future__ import annotations

from minikafka.metadata.controller.balancing import FIRST_PAUSE_MS, BalanceTimer

INTERVAL_MS = 300_000


def looks(timer: BalanceTimer, until_ms: int, since_ms: int = 0) -> list[int]:
    """The seconds at which the controller looks."""
    return [now_ms // 1000 for now_ms in range(since_ms, until_ms + 1, 1000) if timer.is_due(now_ms)]


def test_a_look_in_each_interval() -> None:
    assert looks(BalanceTimer(INTERVAL_MS, 0), 3 * INTERVAL_MS) == [300, 600, 900]


def test_sooner_after_a_return_and_then_ever_more_rarely() -> None:
    timer = BalanceTimer(INTERVAL_MS, 0)
    timer.on_return(1000)
    timer.on_return(2000)  # the second does not put the first off
    assert looks(timer, 1_300_000) == [21, 61, 141, 301, 601, 901, 1201]


def test_a_short_interval_stays_as_it_is() -> None:
    timer = BalanceTimer(FIRST_PAUSE_MS // 10, 0)
    timer.on_return(0)
    assert looks(timer, 6000) == [2, 4, 6]
