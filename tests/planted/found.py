"""All suites: those in each ``*_sabotages.py`` below ``tests``."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Final

from planted.registry import Suite

TESTS: Final = Path(__file__).resolve().parent.parent
SWEPT: Final = (
    "raft",
    "replication",
    "partition",
    "local replica",
    "judging",
    "sequences",
    "transactions",
    "consumer groups",
    "fetching",
    "aborted",
)  # pure machines, and the log as they use it: those for which a schedule takes milliseconds


@cache
def suites() -> dict[str, Suite]:
    """By name."""
    found: dict[str, Suite] = {}
    for path in _paths():
        for one in _suites_in(path):
            assert one.name not in found, f"two suites named {one.name}"
            found[one.name] = one
    return found


@cache
def suite(name: str) -> Suite:
    """The suite of that name; no others are imported if its file is named after it. KeyError when there is none."""
    for path in sorted(_paths(), key=lambda path: not path.stem.startswith(name.split()[0])):
        for one in _suites_in(path):
            if one.name == name:
                return one
    raise KeyError(name)


def named(words: Sequence[str]) -> list[Suite]:
    """The suites that a line of words names: ``raft local replica`` are two. KeyError for a word that names none."""
    found, rest = [], " ".join(words).split()
    while rest:
        for count in range(len(rest), 0, -1):
            try:
                found.append(suite(" ".join(rest[:count])))
            except KeyError:
                continue
            del rest[:count]
            break
        else:
            raise KeyError(rest[0])
    return found


def _paths() -> list[Path]:
    return sorted(TESTS.rglob("*_sabotages.py"))


def _suites_in(path: Path) -> list[Suite]:
    """Its directory is put on ``sys.path``, as the ``conftest.py`` there would do."""
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    return [value for value in vars(importlib.import_module(path.stem)).values() if isinstance(value, Suite)]
