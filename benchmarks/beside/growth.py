"""How the latency of a usual load grows with what else there is: idle partitions, and idle connections."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from itertools import pairwise
from statistics import median
from typing import Final

from benchmarks.apache_kafka import NotHereError
from benchmarks.bare import BareClient
from benchmarks.beside.generator import program
from benchmarks.beside.latency import usual_load
from benchmarks.beside.sides import THEIRS, Side, running_ours, running_theirs
from benchmarks.beside.turns import Turn, heat, in_new_topic, warm
from benchmarks.report import Compared, Figure, Run, Target

SUMMARY = "latency with 1 to 5,000 idle partitions and 1 to 1,000 idle connections, beside Apache Kafka"
TURNS: Final = 3
PARTITIONS: Final = (1, 10, 100, 1_000, 5_000)
THEIR_PARTITIONS_MAX: Final = 1_000
"""Three JVMs with 5,000 of three copies each take more than this machine has."""
A_TOPIC: Final = 1_000
"""Partitions of a topic at most: we create no more than twice as many by one request."""
CONNECTIONS: Final = (1, 10, 100, 1_000)
LIMITS: Final = {1_000: Target("<", 1.5), 5_000: Target("<", 2.0)}
"""Latency with so many idle partitions, to that with one."""

Grown = dict[int, Turn]
"""What a turn is with so many of it."""


def run(run: Run) -> list[Figure]:
    """Each side by itself, with more and more of it: three idle nodes take CPU time, too, with more partitions more."""
    figures: list[Figure] = []
    theirs = _by_kind(run, running_theirs)
    if theirs is not None and (ours := _by_kind(run, running_ours)) is not None:
        for what, turns in ours.items():
            figures += _figures(what, theirs[what], turns)
    return figures


def _by_kind(run: Run, start: Callable[[], AbstractContextManager[Side]]) -> dict[str, Grown] | None:
    """None, and a line that says why, without what the side needs."""
    try:
        program()
        with start() as side:
            heat(run, side)
            return {
                what: _grown(run, side, what, counts, more)
                for what, counts, more in (
                    ("idle connections", CONNECTIONS, _connections),
                    ("idle partitions", PARTITIONS[: 3 if run.quick else None], _partitions),
                )
            }
    except NotHereError as error:
        run.say(f"not compared: {error}")
        return None


def _grown(
    run: Run, side: Side, what: str, counts: tuple[int, ...], more: Callable[[ExitStack, Side, int], None]
) -> Grown:
    take = in_new_topic(usual_load())
    found: Grown = {}
    with ExitStack() as stack:
        warm(run, side, take)
        for before, count in pairwise((0, *counts)):
            if side.name == THEIRS and count > THEIR_PARTITIONS_MAX:
                break
            more(stack, side, count - before)
            turns = [take(side) for _ in range(run.times(TURNS))]
            middle = found[count] = {each: median(turn[each] for turn in turns) for each in turns[0]}
            run.say(f"{side.name}, {count:,} {what}: p50 {middle['p50_ms']:.2f}, p99 {middle['p99_ms']:.2f} ms")
    return found


def _partitions(stack: ExitStack, side: Side, count: int) -> None:
    for already in range(0, count, A_TOPIC):
        stack.enter_context(side.topic(3, min(A_TOPIC, count - already)))


def _connections(stack: ExitStack, side: Side, count: int) -> None:
    """So many more to each node, which has answered once."""
    ports = [side.nodes.client_port(node_id) for node_id in side.nodes.pids]
    for number in range(count):
        client = stack.enter_context(BareClient(ports[number % len(ports)]))
        client.leader_of("none", 0)


def _figures(what: str, theirs: Grown, ours: Grown) -> list[Figure]:
    first = next(iter(ours.values()))
    figures = []
    for count, turn in ours.items():
        name, ratio = f"p50 with {count:,} {what}, to that with one", turn["p50_ms"] / first["p50_ms"]
        limit = LIMITS.get(count) if what == "idle partitions" else None
        note = f"p99 {turn['p99_ms']:.2f} ms, {turn['cpu_us']:.0f} us of CPU for a record"
        compared = Compared(turn["p50_ms"], theirs[count]["p50_ms"] if count in theirs else None, "ms")
        figures.append(Figure(name, ratio, "", limit, note, compared))
    return figures
