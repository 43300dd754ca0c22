"""``python tests/planted [SUITE...]``: which suite notices which planted bug, and how soon. Exit 1 when one is missed.

``SEED=n`` begins with that seed instead of 0, ``JOBS=n`` uses that many processes. ``PIN=1`` looks for seeds that
notice soon, where those in ``known_seeds.txt`` notice nothing any more, and writes them there.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from planted.pin import pin
from planted.table import show_table

if __name__ == "__main__":
    sys.exit(pin(sys.argv[1:]) if "PIN" in os.environ else show_table(sys.argv[1:]))
