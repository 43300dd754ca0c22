"""Errors of ``chaos run`` as a user reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.cli.chaos_run import _full_disk_named
from minikafka.cli.main import _in_words

FULL = Path("/dev/full")


@pytest.mark.skipif(not FULL.exists(), reason="Linux has it")
def test_a_full_disk_is_named(tmp_path: Path) -> None:
    """It was "[Errno 28] No space left on device"."""
    with pytest.raises(OSError, match="No space") as raised, _full_disk_named(tmp_path), FULL.open("w") as file:
        file.write("an event\n")
    assert _in_words(raised.value) == f"{tmp_path}: No space left on device"
