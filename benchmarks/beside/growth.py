"""How the latency of a usual load grows with what else there is: idle partitions, and idle connections."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from itertools import pairwise
from statistics import median
from typing import Final

from benchmarks.bare import BareClient
from benchmarks.beside.latency import usual_load
from benchmarks.beside.sides import OURS, Side
from benchmarks.beside.turns import Turn, both_sides, in_new_topic, warm
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


def run(run: Run) -> list[Figure]:
    """Each with more and more of it."""
    figures: list[Figure] = []
    with both_sides(run) as sides:
        for what, counts, more in (
            ("idle connections", CONNECTIONS, _connections),
            ("idle partitions", PARTITIONS[: 3 if run.quick else None], _partitions),
        ):
            if sides:
                figures += _figures(what, *_grown(run, sides, what, counts, more))
    return figures


def _grown(
    run: Run, sides: list[Side], what: str, counts: tuple[int, ...], more: Callable[[ExitStack, Side, int], None]
) -> list[dict[int, Turn]]:
    """What a turn of each side is with so many of it."""
    take = in_new_topic(usual_load())
    found: dict[str, dict[int, Turn]] = {side.name: {} for side in sides}
    with ExitStack() as stack:
        for side in sides:
            warm(run, side, take)
        for before, count in pairwise((0, *counts)):
            there = [side for side in sides if side.name == OURS or count <= THEIR_PARTITIONS_MAX]
            for side in there:
                more(stack, side, count - before)
            turns: dict[str, list[Turn]] = {side.name: [] for side in there}
            for _ in range(run.times(TURNS)):
                for side in there:
                    turns[side.name].append(take(side))
            for name, of in turns.items():
                middle = found[name][count] = {each: median(turn[each] for turn in of) for each in of[0]}
                run.say(f"{name}, {count:,} {what}: p50 {middle['p50_ms']:.2f}, p99 {middle['p99_ms']:.2f} ms")
    return [found[side.name] for side in sides]


def _partitions(stack: ExitStack, side: Side, count: int) -> None:
    for already in range(0, count, A_TOPIC):
        stack.enter_context(side.topic(3, min(A_TOPIC, count - already)))


def _connections(stack: ExitStack, side: Side, count: int) -> None:
    """So many more to each node, which has answered once."""
    ports = [side.nodes.client_port(node_id) for node_id in side.nodes.pids]
    for number in range(count):
        client = stack.enter_context(BareClient(ports[number % len(ports)]))
        client.leader_of("none", 0)


def _figures(what: str, theirs: dict[int, Turn], ours: dict[int, Turn]) -> list[Figure]:
    first = next(iter(ours.values()))
    figures = []
    for count, turn in ours.items():
        name, ratio = f"p50 with {count:,} {what}, to that with one", turn["p50_ms"] / first["p50_ms"]
        limit = LIMITS.get(count) if what == "idle partitions" else None
        note = f"p99 {turn['p99_ms']:.2f} ms, {turn['cpu_us']:.0f} us of CPU for a record"
        compared = Compared(turn["p50_ms"], theirs[count]["p50_ms"] if count in theirs else None, "ms")
        figures.append(Figure(name, ratio, "", limit, note, compared))
    return figures
