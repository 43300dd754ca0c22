"""What was looked at after a round, beside the history of its clients."""

from __future__ import annotations

from typing import NamedTuple


class Finding(NamedTuple):
    """One thing that must hold, and whether it does."""

    name: str
    ok: bool
    sentence: str
