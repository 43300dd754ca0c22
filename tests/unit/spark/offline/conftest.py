"""Log directories made by hand."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from log_files import Logs


@pytest.fixture
def logs(tmp_path: Path) -> Logs:
    """An empty log directory of node 1."""
    return Logs(tmp_path / "node-1" / "data", node_id=1)
