"""The program that makes the load: compiled by the machine's compiler, with librdkafka's headers, once a process."""

from __future__ import annotations

import atexit
import json
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from benchmarks.apache_kafka import NotHereError

SOURCE: Final = Path(__file__).with_suffix(".c")
COMPILE: Final = ("cc", "-O2", "-Wall", "-Wextra", "-o")
LIBRARIES: Final = ("-lrdkafka", "-lpthread")
_QUIET: Final = {"log_level": 0}
_READING: Final = {"queued.min.messages": 10_000_000, "queued.max.messages.kbytes": 2_000_000}
"""A consumer that has more in its queue fetches nothing for a second. By default that is 100,000 records: what takes a
third of a second is measured as one and a third, by chance, and the more likely, the faster the broker is."""
_PATIENCE_S: Final = 600.0


@dataclass(frozen=True, slots=True)
class Load:
    """What is written: records of so many bytes, a second (0: as fast as they are taken), and how many without an
    answer (0: as many as the client's queue takes); ``warm`` more go before. ``properties`` are librdkafka's."""

    records: int
    size: int
    rate: int = 0
    depth: int = 0
    warm: int = 0
    properties: Mapping[str, object] | None = None


@dataclass(frozen=True, slots=True)
class Written:
    """What the program saw: seconds in all, and microseconds from each record to its answer, by thousandths."""

    seconds: float
    us: tuple[int, ...]

    def ms(self, permille: int) -> float:
        """A quantile of the latency: 500 is the median."""
        return self.us[permille] / 1000


@cache
def program() -> Path:
    """The compiled program. NotHereError without a compiler, or without librdkafka's headers."""
    directory = Path(tempfile.mkdtemp(prefix="minikafka-bench-"))
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    found = directory / SOURCE.stem
    try:
        done = subprocess.run([*COMPILE, found, SOURCE, *LIBRARIES], capture_output=True, text=True)
    except FileNotFoundError:
        raise NotHereError("no C compiler (cc) is installed") from None
    if done.returncode:
        raise NotHereError(f"librdkafka's headers (librdkafka-dev) are not installed: {done.stderr.splitlines()[0]}")
    return found


def write(
    connecting: Mapping[str, Any],
    topic: str,
    partitions: int,
    load: Load,
    on_warm: Callable[[], None] = lambda: None,
    *,
    through: bool = False,
) -> Written:
    """Write it; ``on_warm`` is called when what goes before is written. ``through``: until a consumer has each record,
    instead of its answer."""
    numbers = (partitions, load.records, load.size, load.rate, load.depth, load.warm)
    verb, properties = "through" if through else "produce", {**connecting, **(load.properties or {})}
    with _started(verb, topic, *numbers, properties=properties) as process:
        assert process.stdout
        if process.stdout.readline() == "warm\n":
            on_warm()
        said = process.communicate("\n", timeout=_PATIENCE_S)[0]
    assert said, f"the generator ended with {process.returncode}"
    seen = json.loads(said)
    assert not seen["failed"], f"{seen['failed']} records were not taken: {seen['error']}"
    return Written(seen["seconds"], tuple(seen["us"]))


@contextmanager
def writing(connecting: Mapping[str, Any], topic: str, partitions: int, load: Load) -> Iterator[None]:
    """It is being written, from the end of its ``warm`` on, for as long as the block lasts."""
    numbers = (partitions, load.records, load.size, load.rate, load.depth, load.warm)
    with _started("produce", topic, *numbers, properties={**connecting, **(load.properties or {})}) as process:
        assert process.stdin
        assert process.stdout
        assert process.stdout.readline() == "warm\n"
        process.stdin.write("\n")
        process.stdin.flush()
        yield
        assert process.poll() is None, "it was written before the block ended"


def read(connecting: Mapping[str, Any], topic: str, partitions: int, records: int, consumers: int = 1) -> float:
    """Read so many records from the beginning, with each of so many consumers; seconds."""
    with _started("consume", topic, partitions, records, consumers, properties={**connecting, **_READING}) as process:
        seen = json.loads(process.communicate(timeout=_PATIENCE_S)[0])
    assert not seen["failed"], f"{seen['failed']} errors instead of records"
    return float(seen["seconds"])


@contextmanager
def running_mock(brokers: int) -> Iterator[tuple[str, int]]:
    """librdkafka's mock cluster, in a process of its own: its bootstrap servers, and the process's id."""
    with _started("mock", brokers, properties={}) as process:
        assert process.stdout
        yield process.stdout.readline().strip(), process.pid


@contextmanager
def _started(*words: object, properties: Mapping[str, object]) -> Iterator[subprocess.Popen[str]]:
    given = [f"{name}={_shown(value)}" for name, value in {**_QUIET, **properties}.items()]
    with subprocess.Popen(
        [program(), *map(str, words), *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
