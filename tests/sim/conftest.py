"""Makes the simulation beside these tests (sim_*.py: a cluster of real nodes on virtual machines) importable by name."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
