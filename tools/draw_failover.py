"""Draw ``docs/failover.svg``: what a producer and three nodes live through when the leader is killed.

python tools/draw_failover.py                    # run a cluster, write docs/failover.json and the picture
python tools/draw_failover.py --from FILE.json   # draw a recording, to standard output
"""

from __future__ import annotations

import asyncio
import json
import platform
import statistics
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

from minikafka.chaos.local_cluster import LocalCluster
from minikafka.client import Admin, Consumer, Producer
from minikafka.testing import MiniKafka

ROOT: Final = Path(__file__).resolve().parent.parent
RECORDING: Final = ROOT / "docs" / "failover.json"
PICTURE: Final = ROOT / "docs" / "failover.svg"

# -- the run ----------------------------------------------------------------------------------------------------------

TOPIC: Final = "orders"
BUCKET_MS: Final = 20
KILL_MS: Final = 700
RESTART_MS: Final = 1500
END_MS: Final = 3000
WARM_UP_S: Final = 1.0
RECORDS_PER_S: Final = 2000
LOOK_EVERY_S: Final = 0.005
READ_TIMEOUT_S: Final = 10


class Run:
    """Acknowledgements of a steady stream of records, and the nodes' parts, by milliseconds since the start."""

    def __init__(self, cluster: LocalCluster, leader: int) -> None:
        self._cluster, self._leader = cluster, leader
        self._began_s = time.monotonic() + WARM_UP_S
        self._is_absent = False
        self.acknowledged: list[bytes] = []
        self.acks = Counter[int]()
        self._last_ack_ms = 0
        self.silent_ms = 0
        self.roles: dict[int, list[tuple[int, str]]] = {node: [] for node in cluster.node_ids}

    def now_ms(self) -> int:
        return round((time.monotonic() - self._began_s) * 1000)

    async def produce(self) -> None:
        """Send at a steady rate, whether or not answers come."""
        async with Producer(self._cluster.bootstrap_servers) as producer:
            sent = 0
            while (now_ms := self.now_ms()) < END_MS:
                due = round((now_ms / 1000 + WARM_UP_S) * RECORDS_PER_S)
                for number in range(sent, due):
                    value = b"%d" % number
                    (await producer.send(TOPIC, value)).add_done_callback(partial(self._on_ack, value))
                sent = due
                await asyncio.sleep(0.002)

    def _on_ack(self, value: bytes, delivery: asyncio.Future[Any]) -> None:
        delivery.result()
        self.acknowledged.append(value)
        now_ms = self.now_ms()
        self.acks[now_ms // BUCKET_MS * BUCKET_MS] += 1
        if now_ms > KILL_MS:
            self.silent_ms = max(self.silent_ms, now_ms - self._last_ack_ms)
        self._last_ack_ms = now_ms

    async def break_the_leader(self) -> dict[str, int]:
        """Kill it, and start it again later."""
        await asyncio.sleep((KILL_MS - self.now_ms()) / 1000)
        killed_ms = self.now_ms()
        self._is_absent = True
        self._note(self._leader, "down")
        await asyncio.to_thread(self._cluster.kill, self._leader)
        await asyncio.sleep((RESTART_MS - self.now_ms()) / 1000)
        started_ms = self.now_ms()
        self._note(self._leader, "starts")
        await asyncio.to_thread(self._cluster.start_node, self._leader)
        self._is_absent = False
        return {"killed_ms": killed_ms, "started_ms": started_ms}

    def _note(self, node: int, role: str) -> None:
        changes = self.roles[node]
        if not changes or changes[-1][1] != role:
            changes.append((max(0, self.now_ms()), role))

    async def watch(self) -> None:
        """Note each change of a node's part, as a node says that was never killed."""
        witness = next(node for node in self._cluster.node_ids if node != self._leader)
        while self.now_ms() < END_MS:
            view = await asyncio.to_thread(self._cluster.probe, witness)
            partition = next(each for each in view.partitions if each.topic == TOPIC) if view else None
            for node in self.roles if partition else ():
                if node == self._leader and self._is_absent:
                    continue
                if node == partition.leader_id:
                    self._note(node, "leader")
                else:
                    self._note(node, "in sync" if node in partition.in_sync_replicas else "catches up")
            await asyncio.sleep(LOOK_EVERY_S)


async def record(cluster: LocalCluster) -> dict[str, Any]:
    """One run, and whether what it was promised is there."""
    async with Admin(cluster.bootstrap_servers) as admin:
        await admin.create_topic(TOPIC, partitions=1, replication_factor=3)
    run = Run(cluster, cluster.leader_of(TOPIC))
    _, faults, _ = await asyncio.gather(run.produce(), run.break_the_leader(), run.watch())
    missing = set(run.acknowledged)
    async with Consumer(cluster.bootstrap_servers, TOPIC, auto_offset_reset="earliest") as consumer:
        with suppress(TimeoutError):
            async with asyncio.timeout(READ_TIMEOUT_S):
                async for found in consumer:
                    missing.discard(found.value or b"")
                    if not missing:
                        break
    return {
        **faults,
        "silent_ms": run.silent_ms,
        "end_ms": END_MS,
        "bucket_ms": BUCKET_MS,
        "acks": [run.acks[at] for at in range(0, END_MS, BUCKET_MS)],
        "roles": {str(node): changes for node, changes in run.roles.items()},
        "acknowledged": len(run.acknowledged),
        "lost": len(missing),
        "python": platform.python_version(),
    }


# -- the picture ------------------------------------------------------------------------------------------------------

WIDTH: Final = 900
LEFT: Final = 84
SPAN: Final = WIDTH - LEFT - 28
TOP: Final = 96
CHART: Final = 120
LANES: Final = TOP + CHART + 34
LANE: Final = 26
LANE_STEP: Final = 36
LABEL_MIN: Final = 60
PEAK: Final = 2.5  # times the median: what is more is cut off, and its number written
STYLE: Final = """
text { font: 13px system-ui, -apple-system, 'Segoe UI', Helvetica, Arial, sans-serif; fill: #57606a }
.card { fill: #ffffff; stroke: #d0d7de }
.title { font-size: 18px; font-weight: 600; fill: #1f2328 }
.node { font-weight: 600; fill: #1f2328 }
.grid { stroke: #d8dee4 }
.ack, .leader { fill: #2da44e }
.in-sync { fill: #b4e5c0 }
.catches-up { fill: #f2cc60 }
.down { fill: none; stroke: #cf222e; stroke-dasharray: 5 4 }
.starts { fill: none; stroke: #9a6700; stroke-dasharray: 5 4 }
.mark { stroke: #6e7781; stroke-dasharray: 2 4 }
.fault { stroke: #cf222e; stroke-width: 2 }
.bad { fill: #cf222e; font-weight: 600 }
.on-leader { fill: #ffffff; font-weight: 600 }
.on-in-sync { fill: #116329 }
.on-catches-up { fill: #4d2d00 }
.on-down { fill: #cf222e }
.on-starts { fill: #9a6700 }
@media (prefers-color-scheme: dark) {
  text { fill: #9198a1 }
  .card { fill: #0d1117; stroke: #3d444d }
  .title, .node { fill: #f0f6fc }
  .grid { stroke: #262c36 }
  .ack, .leader { fill: #2ea043 }
  .in-sync { fill: #173d24 }
  .catches-up { fill: #9e6a03 }
  .down, .fault { stroke: #f85149 }
  .bad, .on-down { fill: #f85149 }
  .starts { stroke: #d29922 }
  .on-starts { fill: #d29922 }
  .on-in-sync { fill: #7ee787 }
  .on-catches-up { fill: #ffffff }
}
@media (prefers-reduced-motion: no-preference) {
  .run { animation: run 12s linear infinite }
  @keyframes run {
    0%, 12% { clip-path: inset(0 0 0 0) }
    12.01% { clip-path: inset(0 100% 0 0) }
    75%, 100% { clip-path: inset(0 0 0 0) }
  }
}
"""


def draw(run: dict[str, Any]) -> str:
    """The recording as SVG."""
    height = LANES + 3 * LANE_STEP + 30
    title = (
        f"kill -9 of the leader: writes go on after {run['silent_ms'] / 1000:.2f} s, "
        f"{run['lost'] or 'no'} acknowledged record{'s are' if run['lost'] > 1 else ' is'} lost"
    )
    parts = [
        f'<rect class="card" x="0.5" y="0.5" width="{WIDTH - 1}" height="{height - 1}" rx="10"/>',
        _text(24, 36, title, "title"),
        _text(24, 58, f"records acknowledged per {run['bucket_ms']} ms with acks=all; below, the three brokers"),
        *_grid(run),
        *_marks(run),
        f'<g class="run"><rect x="{LEFT}" y="{TOP}" width="{SPAN}" height="{height - TOP}" fill="none"/>',
        *_bars(run),
        *_lanes(run),
        "</g>",
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" aria-label="{title}">\n'
        f"<style>{STYLE}</style>\n" + "\n".join(parts) + "\n</svg>\n"
    )


def _x(run: dict[str, Any], at_ms: float) -> float:
    return round(LEFT + at_ms / run["end_ms"] * SPAN, 1)


def _most(run: dict[str, Any]) -> int:
    """The upper end of the axis."""
    return round(PEAK * statistics.median(run["acks"])) or 1


def _text(x: float, y: float, text: str, css: str = "", anchor: str = "start") -> str:
    return f'<text x="{x}" y="{y}" class="{css}" text-anchor="{anchor}">{text}</text>'


def _grid(run: dict[str, Any]) -> Iterator[str]:
    """Both axes."""
    most, bottom = _most(run), TOP + CHART
    for count in (0, round(most / PEAK), most):
        y = round(bottom - count / most * CHART, 1)
        yield f'<line class="grid" x1="{LEFT}" x2="{LEFT + SPAN}" y1="{y}" y2="{y}"/>'
        yield _text(LEFT - 8, y + 4, str(count), anchor="end")
    for at_ms in range(0, run["end_ms"] + 1, 500):
        yield _text(_x(run, at_ms), LANES + 3 * LANE_STEP + 12, f"{at_ms / 1000:g} s", anchor="middle")


def _bars(run: dict[str, Any]) -> Iterator[str]:
    most, width = _most(run), round(SPAN / len(run["acks"]) - 0.8, 1)
    for index, count in enumerate(run["acks"]):
        height = round(min(count / most, 1) * CHART, 1)
        x = _x(run, index * run["bucket_ms"])
        if count > most:
            yield _text(x + width + 4, TOP + 12, str(count))
        if count:
            yield f'<rect class="ack" x="{x}" y="{TOP + CHART - height}" width="{width}" height="{height}" rx="1"/>'


def _lanes(run: dict[str, Any]) -> Iterator[str]:
    """A node each, its part in boxes."""
    for lane, (node, changes) in enumerate(sorted(run["roles"].items())):
        y = LANES + lane * LANE_STEP
        yield _text(24, y + 18, f"node {node}", "node")
        ends = [at_ms for at_ms, _role in changes[1:]] + [run["end_ms"]]
        for (at_ms, role), end_ms in zip(changes, ends, strict=True):
            x, css = _x(run, at_ms), role.replace(" ", "-")
            width = round(_x(run, end_ms) - x - 2, 1)
            yield f'<rect class="{css}" x="{x}" y="{y}" width="{max(width, 1)}" height="{LANE}" rx="4"/>'
            if width >= LABEL_MIN:
                yield _text(x + 10, y + 18, role, f"on-{css}")


def _marks(run: dict[str, Any]) -> Iterator[str]:
    """What happened, and when."""
    killed_ms, bottom = run["killed_ms"], LANES + 3 * LANE_STEP - 8
    victim = next(node for node, changes in run["roles"].items() if any(role == "down" for _at, role in changes))
    led_ms = min(
        at_ms for changes in run["roles"].values() for at_ms, role in changes if role == "leader" and at_ms > killed_ms
    )
    synced_ms = next(
        (at_ms for at_ms, role in run["roles"][victim] if role in ("in sync", "leader") and at_ms > run["started_ms"]),
        None,
    )
    yield f'<line class="fault" x1="{_x(run, killed_ms)}" x2="{_x(run, killed_ms)}" y1="{TOP - 12}" y2="{bottom}"/>'
    yield _text(_x(run, killed_ms) - 6, TOP - 6, f"kill -9 of node {victim}", "bad", "end")
    for at_ms, said in (
        (led_ms, "another leader"),
        (run["started_ms"], f"node {victim} starts again"),
        (synced_ms, "in sync again"),
    ):
        if at_ms is not None:
            yield f'<line class="mark" x1="{_x(run, at_ms)}" x2="{_x(run, at_ms)}" y1="{TOP - 12}" y2="{bottom}"/>'
            yield _text(_x(run, at_ms) + 6, TOP - 6, said)


def main(arguments: list[str]) -> int:
    """Run and draw, or draw a recording."""
    if arguments[:1] == ["--from"]:
        sys.stdout.write(draw(json.loads(Path(arguments[1]).read_text(encoding="utf-8"))))
        return 0
    with MiniKafka() as kafka:
        run = asyncio.run(record(kafka.cluster))
    RECORDING.write_text(json.dumps(run) + "\n", encoding="utf-8")
    PICTURE.write_text(draw(run), encoding="utf-8")
    print(f"{PICTURE}: {run['silent_ms']} ms without an acknowledgement, {run['lost']} records lost")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
