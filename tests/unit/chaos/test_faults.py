"""Commands that break nodes: to whom they go, and for how long they wait."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from live_cluster import eventually

from minikafka.chaos.faults import Breakable, finished
from minikafka.chaos.layout import ClusterError, ClusterLayout
from minikafka.chaos.ports import free_base_port
from minikafka.net.control import CONNECT_TIMEOUT_S


class Up(NamedTuple):
    """A node that runs."""

    paused: bool


class Busy(Breakable):
    """One node, which has no time for its connections."""

    patience_s = CONNECT_TIMEOUT_S + 0.3

    def __init__(self, layout: ClusterLayout) -> None:
        self._layout = layout

    @property
    def _nodes_layout(self) -> ClusterLayout:
        return self._layout

    @property
    def _running_nodes(self) -> dict[int, Up]:
        return {1: Up(paused=False)}


class OneOfThree(Breakable):
    """Node 1 is up, 2 is down, and 3 is paused."""

    def __init__(self, layout: ClusterLayout) -> None:
        self._layout = layout
        self.told: list[int] = []

    @property
    def _nodes_layout(self) -> ClusterLayout:
        return self._layout

    @property
    def _running_nodes(self) -> dict[int, Up]:
        return {1: Up(paused=False), 3: Up(paused=True)}

    async def _call(self, node: int, body: dict[str, Any]) -> dict[str, Any]:
        self.told.append(node)
        return {"faults": []}


def test_a_busy_node_is_not_asked_anew_each_second(tmp_path: Path) -> None:
    """Each time it had to begin anew with checking who asks, and a round of chaos on a machine without time failed."""
    layout = ClusterLayout.create(tmp_path / "c", 1, free_base_port(1), {})
    layout.write_files()
    with socket.create_server(("127.0.0.1", layout.ports(1)[2])) as server:
        with pytest.raises(ClusterError, match=r"node 1 does not answer; is it up\? \(no answer within 1 s\)"):
            Busy(layout).faults()
        server.settimeout(0)
        server.accept()[0].close()
        with pytest.raises(BlockingIOError):
            server.accept()


@pytest.mark.parametrize(
    ("breaks", "why"),
    [
        (lambda it: it.cut(1, 2), "node 2 is down"),
        (lambda it: it.cut(2, 1, one_way=True), "node 2 is down"),
        (lambda it: it.cut(1, 3), "node 3 is paused"),
        (lambda it: it.isolate(1), "node 2 is down"),
        (lambda it: it.slow(1, 2, delay_ms=5), "node 2 is down"),
        (lambda it: it.rule("Produce", drop=True), "node 2 is down"),
        (lambda it: it.rule("Produce", drop=True, brokers=[1, 3]), "node 3 is paused"),
        (lambda it: it.clock(3, 5), "node 3 is paused"),
        (lambda it: it.disk(2, full=True), "node 2 is down"),
    ],
)
def test_nothing_is_broken_when_one_of_its_nodes_cannot_be_told(
    breaks: Callable[[OneOfThree], object], why: str, tmp_path: Path
) -> None:
    """The other end had cut the link all the same, and a node that was started again could not get in."""
    it = OneOfThree(ClusterLayout.create(tmp_path / "c", 3, free_base_port(3), {}))
    with pytest.raises(ClusterError, match=f"^{why}; nothing was changed$"):
        breaks(it)
    assert it.told == []
    it.mend([1, 2])
    it.join(1, 2)
    assert it.told == [1, 2, 1], "what can be mended is"


def test_true_is_no_node(tmp_path: Path) -> None:
    """It passed for node 1, and the other end of the link refused it: the cut was half there."""
    with pytest.raises(ClusterError, match="node True not found"):
        Busy(ClusterLayout.create(tmp_path / "c", 2, free_base_port(2), {})).cut(True, 2)


def test_who_is_interrupted_does_not_wait_for_the_end() -> None:
    """The time of a test was over, or Ctrl-C came, and a call to brokers that hang went on for a minute or more."""
    ended: list[str] = []

    async def work() -> None:
        os.kill(os.getpid(), signal.SIGINT)
        try:
            await asyncio.sleep(5)
            ended.append("by itself")
        except asyncio.CancelledError:
            ended.append("cancelled")
            raise

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            finished(work())
    finally:
        signal.signal(signal.SIGINT, before)
    eventually(lambda: ended == ["cancelled"], "its end", 4)  # the caller may have seen the signal before it can wait


def test_who_is_interrupted_before_it_has_begun_does_not_wait_either(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nobody knew yet what there was to cancel."""
    ended: list[str] = []
    submit = ThreadPoolExecutor.submit

    def interrupted(*words: Any) -> None:
        submit(*words)
        raise KeyboardInterrupt

    async def work() -> None:
        await asyncio.sleep(5)
        ended.append("by itself")

    monkeypatch.setattr(ThreadPoolExecutor, "submit", interrupted)
    with pytest.raises(KeyboardInterrupt):
        finished(work())
    assert ended == []
