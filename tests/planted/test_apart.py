from __future__ import annotations

import os

import pytest

from planted.apart import apart


def test_a_schedule_is_run_in_a_process_of_its_own() -> None:
    ran: list[int] = []

    def run(seed: int) -> None:
        ran.append(seed)
        called.add(f"bug {seed}")
        assert seed != 7, f"seed {seed} in process {os.getpid()}"

    called = set[str]()
    run_apart = apart(run, (AssertionError,), called)
    run_apart(6)
    with pytest.raises(AssertionError, match="seed 7 in process") as caught:
        run_apart(7)
    assert str(os.getpid()) not in str(caught.value)
    assert ran == []
    assert called == {"bug 6", "bug 7"}, "it tells what was called there"


def test_one_whose_process_ends_is_no_catch() -> None:
    with pytest.raises(RuntimeError, match="the process of seed 1 ended without a word"):
        apart(lambda seed: os._exit(3), (AssertionError,), set())(1)
