"""Makes the harness beside these tests (groups_*.py) importable by name, and its driver a fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from groups_driver import Driver


@pytest.fixture
def driver() -> Driver:
    """A driver that commits every write at once, of a coordinator that does not wait for first members."""
    return Driver()
