"""Requests that walk everything, on a node with 3,000 partitions, a log of 2,000 segments and 2,000 groups.

The requests of the other attacks are as large as they may be, and the node's state is small. Here it is the other way
round.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest
from large_groups import gather
from large_state import LONG, PARTITIONS, TOPICS, build
from large_walks import WALKS, Walk, alter_configs, fetch, produce
from live_attack import HONEST_TOPIC, MEMORY_MAX, Honest, Target
from live_cluster import eventually, unjudged_cluster
from live_turns import turn_max_ms
from live_wire import Wire, api_key
from test_large_requests import errors_in

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.metadata.records import ConfigResourceType
from minikafka.wire.codec import encode

pytestmark = pytest.mark.spec("P6")

LIMIT_MS: Final = 30
"""CPU time of a turn, less than what is promised. A request is tried again beyond it: other tests cost time, too."""
TRIES: Final = 4


@pytest.mark.long
def test_no_request_holds_the_loop_however_much_it_walks(tmp_path: Path) -> None:
    """One test: the state takes seconds to build."""
    limit_ms = turn_max_ms(LIMIT_MS)
    settings = {"loop_turn_warn_ms": str(limit_ms), "log_retention_check_interval_ms": "1000"}
    with unjudged_cluster(tmp_path / "cluster", 1, **settings) as cluster:
        target = Target(cluster)
        target.create_topic(HONEST_TOPIC)
        build(target)
        with target.wire() as wire:
            gather(wire)
        assert max(map(cpu_ms, slow_turns_in(target.log())), default=0) < 4 * limit_ms
        with target.wire() as wire, target.wire() as producer:
            assert_many_partitions_are_served(wire, producer)
        target.forget_peak_memory()
        slow = {name: turns for name, walk in WALKS.items() if (turns := slow_turns_of(target, walk, limit_ms))}
        slow |= {"retention": turns} if (turns := slow_turns_of_retention(target, limit_ms)) else {}
        assert not slow, "\n".join(f"{name}: {turn}" for name, turns in slow.items() for turn in turns)
        assert target.peak_memory() < MEMORY_MAX
        assert_no_exception(cluster)


def assert_many_partitions_are_served(wire: Wire, producer: Wire) -> None:
    """In portions: nothing is left out, and a fetch that waits is woken by any of them."""
    produced, found = produce(), fetch(max_bytes=1000)
    assert not errors_in(producer.ask(produced, 9))
    answer = wire.ask(found, 11)
    told = [data for topic in answer.responses for data in topic.partitions]
    assert len(told) == len(TOPICS) * len(PARTITIONS)
    assert all(data.records for data in told)
    waiting = fetch(wait_ms=30_000, offset=max(data.high_watermark for data in told), min_bytes=1)
    wire.send(waiting, 11)
    for _ in range(2):
        assert producer.produce(TOPICS[-1], b"news", partition=PARTITIONS[-1]) > 0
    told = [data for topic in wire.receive(waiting, 11).responses for data in topic.partitions]
    assert [data.partition_index for data in told if data.records] == [PARTITIONS[-1]]


def slow_turns_of(target: Target, walk: Walk, limit_ms: int) -> list[str]:
    """Log lines of turns that took longer, if each try had some. What cannot be repeated may take twice as long."""
    for _ in range(TRIES if walk.is_repeatable else 1):
        log_before = len(target.log())
        send(target, walk)
        lines = slow_turns_in(target.log()[log_before:])
        slow = lines if walk.is_repeatable else [line for line in lines if cpu_ms(line) > 2 * limit_ms]
        if not slow:
            break
    return slow


def send(target: Target, walk: Walk) -> None:
    """Until it is answered, and some records of an honest producer that came behind it, too."""
    with Honest(target) as honest, target.wire() as wire:
        requests = list(walk.make())
        for request in requests:
            wire.send_body(api_key(request), walk.version, encode(request, walk.version))
        for _ in requests:
            wire.receive_frame()
        honest.wait_for(honest.count + 3)
    assert not honest.failures


def slow_turns_of_retention(target: Target, limit_ms: int) -> list[str]:
    """All segments of a log expire at once."""
    log_before, directory = len(target.log()), target.cluster.layout.data_directory(1) / f"{LONG}-0"
    with Honest(target) as honest, target.wire() as wire:
        wire.ask(alter_configs(ConfigResourceType.TOPIC, [LONG], "retention.ms", "1"), 1)
        eventually(lambda: len(list(directory.glob("*.log"))) < 3, "the segments to go")
    assert not honest.failures
    return [line for line in slow_turns_in(target.log()[log_before:]) if cpu_ms(line) > 2 * limit_ms]


def slow_turns_in(said: str) -> list[str]:
    return [line for line in said.splitlines() if "slow turn" in line]


def cpu_ms(line: str) -> int:
    found = re.search(r"cpu_ms=(\d+)", line)
    assert found
    return int(found[1])


def assert_no_exception(cluster: LocalCluster) -> None:
    said = cluster.layout.log_file(1).read_text()
    assert "Traceback" not in said
    assert "[critical" not in said
