"""From the SIGKILL of a leader to the next acknowledged write, as a librdkafka producer lives through it.

It sends 200 records a second to each partition throughout. The gap of a kill is the longest among the partitions that
the victim led: the time until a record that was sent after the kill is acknowledged. Victims are as in ``failover``.
"""

from __future__ import annotations

import time
from typing import Final

from benchmarks.clusters import create_topic, running_cluster, settled_view
from benchmarks.failover import KILLS, PARTITIONS, SETTINGS, TOPIC, Victim, choose_victim, figures
from benchmarks.report import Figure, Run
from benchmarks.traffic import flowing, safety

SUMMARY = "from a leader's SIGKILL to the next acknowledged write, as librdkafka lives through it"
RATE: Final = 200 * PARTITIONS
RECONNECT_MAX_MS: Final = 500
"""By default a client that could not connect waits up to 10 s before it tries again. Where a node is killed, comes back
after 2 s and is the next leader, that would be measured."""
_UNDISTURBED_S: Final = 1.0
_DOWN_S: Final = 2.0


def run(run: Run) -> list[Figure]:
    """Twenty kills, each of a cluster that has fully healed, and the judgement of everything that was sent."""
    kills: list[tuple[Victim, int]] = []
    with running_cluster(SETTINGS) as cluster:
        create_topic(cluster, TOPIC, partitions=PARTITIONS)
        with flowing(cluster, TOPIC, PARTITIONS, RATE, reconnect_backoff_max_ms=RECONNECT_MAX_MS) as traffic:
            for number in range(run.times(KILLS)):
                victim = choose_victim(cluster, number)
                time.sleep(_UNDISTURBED_S)
                kills.append((victim, traffic.mark(f"SIGKILL {victim}")))
                cluster.kill(victim.node_id)
                time.sleep(_DOWN_S)
                cluster.start_node(victim.node_id)
            settled_view(cluster)
            time.sleep(_UNDISTURBED_S)
        verdict = traffic.verdict()
    seconds: dict[bool, list[float]] = {True: [], False: []}
    for victim, killed_ms in kills:
        first_ms = traffic.first_write_ms(killed_ms)
        gaps = [(first_ms[partition] - killed_ms) / 1000 for partition in victim.partitions]
        seconds[victim.is_controller].append(max(gaps))
        run.say(f"killed {victim}: gaps of its partitions {', '.join(f'{gap * 1000:.0f}' for gap in gaps)} ms")
    return figures("kill to librdkafka's next write", seconds) + safety(verdict)
