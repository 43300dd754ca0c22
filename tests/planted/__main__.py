"""``python tests/planted [SUITE...]``: which suite notices which planted bug, and how soon. Exit 1 when one is missed.

``SEED=n`` begins with that seed instead of 0, ``JOBS=n`` uses that many processes.
"""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from planted.table import show_table

if __name__ == "__main__":
    sys.exit(show_table(sys.argv[1:]))
