"""All suites: those in each ``*_sabotages.py`` below ``tests``."""

from __future__ import annotations

import importlib
import sys
from functools import cache
from pathlib import Path
from typing import Final

from planted.registry import Suite

TESTS: Final = Path(__file__).resolve().parent.parent
PROTOCOLS: Final = ("raft", "replication", "partition")  # the pure machines that a sweep is about


@cache
def suites() -> dict[str, Suite]:
    """By name. The directories of the suites are put on ``sys.path``, as their ``conftest.py`` would do."""
    found: dict[str, Suite] = {}
    for path in sorted(TESTS.rglob("*_sabotages.py")):
        if str(path.parent) not in sys.path:
            sys.path.insert(0, str(path.parent))
        for value in vars(importlib.import_module(path.stem)).values():
            if isinstance(value, Suite):
                assert value.name not in found, f"two suites named {value.name}"
                found[value.name] = value
    return found
