"""The load of a consumer group: members come and go, and together are handed everything."""

from __future__ import annotations

import time
from collections import Counter
from typing import Any, Final

from minikafka.chaos.report.run import Finding
from minikafka.chaos.rounds.loads import (
    AT_ONCE,
    DRAIN_S,
    PARTITIONS,
    TICK_S,
    TOPIC,
    Load,
    Worker,
    Writer,
    identity,
    make_consumer,
    note_polled,
    place,
)

GROUP: Final = "chaos-group"
MEMBERS: Final = 3
LIFE_S: Final = (3.0, 15.0)


class Member(Worker):
    """A member of the group, which leaves and comes back as another one."""

    def __init__(self, name: str, load: GroupLoad) -> None:
        super().__init__(name, load)
        self._load = load

    def work(self) -> None:
        life = 0
        while not self.load.reading_is_over.is_set():
            life += 1
            self._live(f"{self.name}.{life}")

    def _live(self, process: str) -> None:
        def on_assign(consumer: Any, partitions: list[Any]) -> None:
            self.history.append(process, "ok", "assign", [f"{each.topic}-{each.partition}" for each in partitions])

        consumer = make_consumer(
            self.load.servers,
            "read_uncommitted",
            group_id=GROUP,
            group_protocol=self._load.protocol,
            enable_auto_commit=True,
            auto_commit_interval_ms=500,
            auto_offset_reset="earliest",
            **({"session_timeout_ms": 6_000} if self._load.protocol == "classic" else {}),
        )
        consumer.subscribe([TOPIC], on_assign=on_assign)
        ends_at = time.monotonic() + self._load.rng.uniform(*LIFE_S)
        while not self.load.reading_is_over.is_set():
            if time.monotonic() > ends_at and not self.load.sending_is_over.is_set():
                break
            messages = consumer.consume(AT_ONCE, 0.2)
            count = note_polled(self.history, process, messages)
            self.load.read += count
            self._load.seen.update((place(each), identity(each)) for each in messages if each.error() is None)
        consumer.close()


class GroupLoad(Load):
    """Two producers, and a group of three members that each leave after some seconds and come back."""

    name = "group"
    group = GROUP

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.protocol = self.rng.choice(("classic", "consumer"))
        self.seen: Counter[tuple[str, str]] = Counter()

    def make_writers(self) -> list[Worker]:
        return [Writer(f"producer-{n}", self, self.rate / 2) for n in (1, 2)]

    def make_readers(self) -> list[Worker]:
        return [Member(f"member-{n}", self) for n in range(1, MEMBERS + 1)]

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
        return [
            Finding(
                "the group was handed every acknowledged record",
                not missing,
                f"{len(missing):,} missing{example}; {again:,} were handed out again (protocol {self.protocol}, "
                f"{PARTITIONS} partitions)",
            )
        ]

    def _missing(self) -> set[tuple[str, str]]:
        return {
            (item[0], item[1])
            for event in list(self.history.events)
            if event.function == "send" and event.type == "ok"
            for item in event.value
        } - self.seen.keys()
