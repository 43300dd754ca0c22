"""Makes the harness beside these tests (transactions_*.py) importable by name, and its driver a fixture."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from transactions_driver import Driver


@pytest.fixture
def driver() -> Driver:
    """A driver that commits every write at once."""
    return Driver()
