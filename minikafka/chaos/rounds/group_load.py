"""The load of a consumer group: members come and go, and together are handed everything."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds.loads import DRAIN_S, Load, Worker
from minikafka.chaos.rounds.reading import TICK_S
from minikafka.chaos.rounds.records import PARTITIONS
from minikafka.ledger.events import EventType

GROUP: Final = "chaos-group"
MEMBERS: Final = 3


class GroupLoad(Load):
    """Two producers, and a group of three members that each leave after some seconds and come back."""

    name = "group"
    group = GROUP

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.protocol = self.rng.choice(self.clients.protocols)
        self.seen: Counter[tuple[str, str]] = Counter()
        self._committed: set[str] = set()  # places of which a member was told that an offset is committed
        self._going_on: set[tuple[str, str]] = set()  # member and place: what it is handed next is not the first record
        self._forgotten: list[str] = []

    def make_readers(self) -> list[Worker]:
        return [self.clients.member(f"member-{n}", self, GROUP, self.protocol) for n in range(1, MEMBERS + 1)]

    @property
    def followers(self) -> list[Worker]:
        return []

    def note(self, process: str, type: EventType, function: str, value: Any) -> None:
        super().note(process, type, function, value)
        with self._counting:
            if function == "assign":
                self._going_on.update((process, place) for place in value if place in self._committed)
            elif function == "poll":
                self.seen.update((place, key) for place, key, _ in value)
                for place, _, offset in value:
                    if (process, place) in self._going_on:
                        self._going_on.remove((process, place))
                        if offset == 0:
                            self._forgotten.append(f"{process} was handed {place} from the beginning")

    def note_committed(self, places: Iterable[str]) -> None:
        """A member was told that its offsets there are committed. Who has a partition next asks for its offset after
        that was noted, and does not begin anew. Where it begins, nobody can say: librdkafka repeats a commit without an
        answer, also after a later one."""
        super().note_committed(places)
        with self._counting:
            self._committed.update(places)

    def drain(self) -> None:
        """The group goes on until it has been handed all that was acknowledged, before it ends."""
        deadline = time.monotonic() + DRAIN_S
        while self._missing() and time.monotonic() < deadline:
            time.sleep(10 * TICK_S)
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
            )
        ]
        if self.commits:  # not all clients tell of them
            forgotten = self._forgotten
            sentence = f"{self.commits:,} commits" if not forgotten else f"{len(forgotten):,} were; {forgotten[0]}"
            found.append(Finding("no partition was begun anew after a commit", not forgotten, sentence))
        return found

    def _missing(self) -> set[tuple[str, str]]:
        return {
            (item[0], item[1])
            for event in list(self.history.events)
            if event.function == "send" and event.type == "ok"
            for item in event.value
        } - self.seen.keys()
