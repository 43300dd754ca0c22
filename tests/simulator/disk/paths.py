"""Paths of a simulated disk, and the errors that name them."""

from __future__ import annotations

import os


def names_of(path: str) -> list[str]:
    """The names on the way to ``path``. Relative paths begin where absolute ones do."""
    return [name for name in path.split("/") if name and name != "."]


def os_error(code: int, path: str) -> OSError:
    """What the operating system raises."""
    return OSError(code, os.strerror(code), path)
