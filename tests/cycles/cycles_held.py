"""What is held now, counted by where it is held: what grows with each repetition of something shows here.

Numbers, strings and bytes are not known to the garbage collector, so containers are measured by what is in them: every
dict, set, list and deque that is an attribute of an object of the package, by class and attribute. Beside them: objects
by type, caches of functions, descriptors, and files. And garbage: what refers to itself in a circle is freed by a full
garbage collection alone, and a node has none for days.
"""

from __future__ import annotations

import gc
import os
import sys
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import AsyncGeneratorType, CoroutineType, FrameType, GeneratorType, MethodType
from typing import Any, Final

PACKAGE: Final = "minikafka"
GARBAGE: Final = "garbage"
Held = Counter[str]
_CONTAINERS: Final = (dict, set, frozenset, list, tuple, deque)
_COUNTED: Final = {PACKAGE, "_asyncio", "asyncio", "uvloop", "_socket", "socket", "_ssl", "ssl", "threading"}
"""Packages whose objects count; those of the interpreter come and go."""
_KINDS: Final = (CoroutineType, GeneratorType, AsyncGeneratorType, FrameType, MethodType, memoryview)
_DEPTH: Final = 4
_TEXT: Final = 64
"""Characters, or bytes, that count as much as an entry."""
_garbage: Final[Held] = Counter()
"""All that was ever found."""


def held(directories: Iterable[Path] = ()) -> Held:
    """By name: how many there are. ``directories``: of the files."""
    globals_ = list(_globals())  # which clears caches
    _collect()
    found: Held = Counter(_garbage)
    objects = gc.get_objects()
    try:
        for one in objects:
            kind = type(one)
            if not isinstance(kind.__module__, str):  # of a class that makes classes
                continue
            package = kind.__module__.partition(".")[0]
            if package in _COUNTED or kind in _KINDS:
                found[f"objects {kind.__module__}.{kind.__qualname__}"] += 1
            if package == PACKAGE:
                for name, value in _attributes(one):
                    if (size := _size(value)) > 0:
                        found[f"{kind.__qualname__}.{name}"] += size
    finally:
        del objects
    for name, size in globals_:
        found[name] += size
    found["descriptors"] = len(os.listdir("/proc/self/fd"))
    _count_files(directories, found)
    return found


def _collect() -> None:
    """As ``gc.collect``, but garbage of the package is counted. The collector must not run by itself."""
    gc.set_debug(gc.DEBUG_SAVEALL)
    gc.collect()
    gc.set_debug(0)
    for one in gc.garbage:
        module = type(one).__module__
        if isinstance(module, str) and module.partition(".")[0] == PACKAGE:
            _garbage[f"{GARBAGE} {module}.{type(one).__qualname__}"] += 1
    gc.garbage.clear()
    gc.collect()


def _count_files(directories: Iterable[Path], found: Held) -> None:
    """Segments come and go: what counts is many files, or files of no segment."""
    files = size = 0
    for path in (each for directory in directories for each in directory.rglob("*")):
        try:
            size += path.stat().st_size
        except FileNotFoundError:
            continue
        files += 1
        found["snapshots without a segment"] += path.suffix == ".snapshot" and not path.with_suffix(".log").exists()
    found["files, by fives"] = files // 5
    found["10 KiB of files"] = size // 10_240


def _attributes(one: object) -> Iterator[tuple[str, Any]]:
    yield from list(getattr(one, "__dict__", {}).items())
    for kind in type(one).__mro__:
        slots = kind.__dict__.get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name not in ("__dict__", "__weakref__"):
                name = f"_{kind.__name__.lstrip('_')}{name}" if name.startswith("__") else name
                try:
                    yield name, getattr(one, name)
                except AttributeError:
                    continue


def _size(value: object, depth: int = _DEPTH) -> int:
    """Entries, with those of containers within; long texts count for more."""
    if isinstance(value, str | bytes | bytearray):
        return len(value) // _TEXT
    if not isinstance(value, _CONTAINERS):
        return 0
    size = 0 if isinstance(value, tuple) else len(value)
    if depth:
        parts = [*value, *value.values()] if isinstance(value, dict) else list(value)
        size += sum(_size(part, depth - 1) for part in parts)
    return size


def _globals() -> Iterator[tuple[str, int]]:
    for name, module in list(sys.modules.items()):
        if name.partition(".")[0] != PACKAGE:
            continue
        for key, value in list(vars(module).items()):
            if hasattr(value, "cache_info") and getattr(value, "__module__", name) == name:
                if value.cache_info().maxsize is not None:
                    value.cache_clear()  # it is bounded
                yield f"cache of {name}.{key}", value.cache_info().currsize
            elif isinstance(value, _CONTAINERS):
                yield f"{name}.{key}", _size(value)


def grown(before: Mapping[str, int], after: Mapping[str, int], at_least: int) -> dict[str, int]:
    """What has grown by so much or more, most first."""
    more = {name: count - before.get(name, 0) for name, count in after.items()}
    return dict(sorted(((n, c) for n, c in more.items() if c >= at_least), key=lambda each: -each[1]))
