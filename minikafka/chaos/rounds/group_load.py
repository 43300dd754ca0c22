"""The load of a consumer group: members come and go, and together are handed everything."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds.behind import left_uncommitted
from minikafka.chaos.rounds.commits import Commits
from minikafka.chaos.rounds.loads import DRAIN_S, Load, Worker
from minikafka.chaos.rounds.reading import TICK_S
from minikafka.chaos.rounds.records import PARTITIONS, TOPIC
from minikafka.ledger.events import EventType

GROUP: Final = "chaos-group"
MEMBERS: Final = 3
COMMIT_S: Final = 30.0
"""Members commit twice a second."""


class GroupLoad(Load):
    """Two producers, and a group of three members that each leave after some seconds and come back."""

    name = "group"
    group = GROUP

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.protocol = self.rng.choice(self.clients.protocols)
        self.seen: Counter[tuple[str, str]] = Counter()
        self.commits = Commits()
        self.behind: list[str] = []

    def make_readers(self) -> list[Worker]:
        return [self.clients.member(f"member-{n}", self, GROUP, self.protocol) for n in range(1, MEMBERS + 1)]

    @property
    def followers(self) -> list[Worker]:
        return []

    def note(self, process: str, type: EventType, function: str, value: Any) -> None:
        super().note(process, type, function, value)
        with self._counting:
            if function == "assign":
                self.commits.assigned(process, value, self.history.now_ms())
            elif function == "poll":
                self.seen.update((place, key) for place, key, _ in value)
                for place, _, offset in value:
                    self.commits.handed(process, place, offset, self.history.now_ms())

    def note_committed(self, process: str, offsets: Sequence[tuple[str, int]], *, is_done: bool) -> None:
        with self._counting:
            self.commits.told(process, offsets, self.history.now_ms(), is_done=is_done)

    def drain(self) -> None:
        """The group goes on until it has been handed all that was acknowledged, and has committed it."""
        deadline = time.monotonic() + DRAIN_S
        while self._missing() and time.monotonic() < deadline:
            time.sleep(10 * TICK_S)
        self.behind = asyncio.run(left_uncommitted(self.cluster, TOPIC, GROUP, COMMIT_S))
        self.stop_reading()
        super().drain()

    def settings(self) -> dict[str, str]:
        return {**super().settings(), "group.protocol": self.protocol}

    def findings(self) -> list[Finding]:
        missing = self._missing()
        again = sum(self.seen.values()) - len(self.seen)
        example = f", for example {min(missing)}" if missing else ""
        found = [
            Finding(
                "the group was handed every acknowledged record",
                not missing,
                f"{len(missing):,} missing{example}; {again:,} were handed out again (protocol {self.protocol}, "
                f"{PARTITIONS} partitions)",
            ),
            Finding(
                "the group committed what it was handed",
                not self.behind,
                "; ".join(self.behind) if self.behind else f"{PARTITIONS} partitions",
            ),
        ]
        if self.commits.count:  # not all clients tell of them
            moved = list(self.commits.moved_back())
            sentence = f"{self.commits.count:,} commits" if not moved else f"{len(moved):,} did not; {moved[0]}"
            found.append(Finding("members began where offsets were committed", not moved, sentence))
        return found

    def _missing(self) -> set[tuple[str, str]]:
        return {
            (item[0], item[1])
            for event in list(self.history.events)
            if event.function == "send" and event.type == "ok"
            for item in event.value
        } - self.seen.keys()
