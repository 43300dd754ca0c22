"""Batches with a right checksum and anything else wrong, through all that reads them later.

``make hostile`` has many scenes (``HOSTILE_SCENES``), each of some thirty such batches.
"""

from __future__ import annotations

import os

from hostile_logs import Scene

SCENES = int(os.environ.get("HOSTILE_SCENES", "15"))
FIRST = int(os.environ.get("HOSTILE_SEED", "0"))


def test_they_hurt_nobody() -> None:
    taken = 0
    for seed in range(FIRST, FIRST + SCENES):
        scene = Scene(seed)
        try:
            scene.run(60)
        except BaseException as error:
            error.add_note(f"HOSTILE_SEED={seed} HOSTILE_SCENES=1")
            raise
        taken += scene.taken
    assert taken > 3 * SCENES, "a leader refuses nearly all of them before anybody reads them"
