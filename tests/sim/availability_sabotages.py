"""Planted bugs that cost availability: a cluster that is slow, or lacks something, must not stand still for it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from planted.registry import Suite
from sim_availability import check_availability, trace_of
from sim_invariants import InvariantViolatedError

from minikafka.broker.threads import Threads
from minikafka.net import probe
from minikafka.raft.candidate import Candidate

SUITE = Suite(
    "availability",
    "whole clusters whose disks are slow, or that lack something",
    check_availability,
    100,
    (InvariantViolatedError,),
    trace_of,
    is_slow=True,
)


@SUITE.plants()
def a_name_that_is_not_resolved_for_a_moment_is_a_node_that_is_gone(patch: Any) -> None:
    """A resolver that fails (EAI_AGAIN) lets a new controller fence everybody."""
    patch.setattr(probe, "NO_SUCH_NAME", probe.NO_SUCH_NAME | {socket.EAI_AGAIN})


@SUITE.plants()
def upkeep_holds_the_loop_up(patch: Any) -> None:
    """Checkpoints and whatever else is upkeep are written on the loop: heartbeats and fetches wait for slow disks."""
    patch.setattr(Threads, "upkeep", _on_the_loop)


@SUITE.plants()
def the_metadata_log_holds_the_loop_up(patch: Any) -> None:
    """Votes and the metadata log are synced on the loop."""
    patch.setattr(Threads, "metadata", _on_the_loop)


@SUITE.plants()
def elections_do_not_wait_for_the_vote(patch: Any) -> None:
    """The clock of an election runs while the vote is written: on a slow disk none ever ends."""
    begin = Candidate.__init__

    def with_clock(candidate: Candidate, core: Any, now_ms: int, *arguments: Any) -> None:
        begin(candidate, core, now_ms, *arguments)
        candidate._deadline_ms = now_ms + core.election_timeout_ms()

    patch.setattr(Candidate, "__init__", with_clock)


def _on_the_loop(threads: Threads, act: Callable[[], Any]) -> asyncio.Future[Any]:
    future = threads._loop.create_future()
    try:
        future.set_result(act())
    except Exception as error:
        future.set_exception(error)
    return future
