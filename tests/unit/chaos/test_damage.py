"""What of a data directory is damaged."""

from __future__ import annotations

from pathlib import Path

from minikafka.chaos.damage import replicas


def test_what_a_replica_left_behind_is_not_damaged(tmp_path: Path) -> None:
    """Nobody reads it: a round told of damage, and had made none."""
    for name in ("load-0", "load-11", f"load-3.{'0a' * 16}-delete", f"load-4.{'0a' * 16}-future", "other-0"):
        (tmp_path / name).mkdir()
    assert replicas(tmp_path, ["load"]) == [tmp_path / "load-0", tmp_path / "load-11"]
