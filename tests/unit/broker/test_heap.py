"""Freed memory goes back to the system."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress

import pytest

from minikafka.broker import heap
from minikafka.broker.heap import HOLES_BYTES, give_back_holes

HOLES = """
from minikafka.broker.heap import Heap

def resident() -> int:
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmRSS")) << 10

heap = Heap.of_process()
if heap is None:
    raise SystemExit(77)
free = heap.free_bytes
pieces = [bytes([1]) * 100_000 for _ in range(600)]
kept = pieces[::20]
del pieces
assert heap.free_bytes - free > 50_000_000, heap.free_bytes
before = resident()
heap.give_back()
assert before - resident() > 40_000_000, (before, resident())
assert heap.free_bytes - free > 50_000_000, heap.free_bytes
"""


def test_what_is_free_between_what_is_used_is_given_back() -> None:
    status = subprocess.run([sys.executable, "-c", HOLES], check=False, timeout=60).returncode
    if status == 77:
        pytest.skip("another C library")
    assert status == 0


class ScriptedHeap:
    """Says each second how many MiB are free."""

    def __init__(self, *free: int) -> None:
        self._free = iter(free)
        self._last = 0
        self.given_back: list[int] = []

    @property
    def free_bytes(self) -> int:
        self._last = next(self._free)
        return self._last << 20

    def give_back(self) -> None:
        self.given_back.append(self._last)


@pytest.mark.parametrize(
    ("free", "given_back"),
    [
        ([10, 10, 26, 26], []),
        ([10, 27, 27, 27, 43, 44, 44], [27, 44]),
        ([40, 5, 21, 22, 22], [22]),  # what was free was used, and is free again
    ],
)
async def test_it_is_given_back_when_much_more_is_free(
    free: list[int], given_back: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert HOLES_BYTES == 16 << 20
    monkeypatch.setattr(heap, "CHECK_INTERVAL_S", 0)
    monkeypatch.setattr(heap, "REST_S", 0)
    scripted = ScriptedHeap(*free)

    async def run(act: Callable[[], None]) -> None:
        act()

    with suppress(RuntimeError):  # the script ended
        await give_back_holes(scripted, run)  # type: ignore[arg-type]
    assert scripted.given_back == given_back
