"""``minikafka cluster list``, on a machine of several users."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import COMMAND

from minikafka.chaos import local_cluster
from minikafka.chaos.layout import ClusterLayout


def test_a_cluster_that_others_may_not_read_hides_no_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The verb ended with the first one, though a port in use says to look here."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.delenv("MINIKAFKA_DIR", raising=False)
    theirs, ours = (ClusterLayout.create(tmp_path / name, 1, 41_000, {}).directory for name in ("a", "b"))
    monkeypatch.setattr(local_cluster, "running_directories", lambda: [theirs, ours])
    exists = ClusterLayout.exists

    def forbidden(directory: Path) -> bool:  # the user of a test may read all
        if directory == theirs:
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(directory / "cluster.json"))
        return exists(directory)

    monkeypatch.setattr(ClusterLayout, "exists", forbidden)
    said = CliRunner().invoke(COMMAND, ["cluster", "list"], env={"COLUMNS": "200"})
    assert said.exit_code == 0
    assert f"{theirs}: Permission denied\n" in said.stderr
    assert f"{ours}   0 of 1  127.0.0.1:41000" in said.stdout
