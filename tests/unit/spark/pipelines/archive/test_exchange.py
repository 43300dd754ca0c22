from __future__ import annotations

import sys
from pathlib import Path

import pytest

from minikafka.spark.pipelines.archive.exchange import exchange


@pytest.mark.skipif(sys.platform not in ("linux", "darwin"), reason="only these systems exchange directories")
def test_two_directories_exchange(tmp_path: Path) -> None:
    for name in "ab":
        (tmp_path / name).mkdir()
        (tmp_path / name / f"in-{name}").touch()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system cannot")
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["in-b"]
    assert [path.name for path in (tmp_path / "b").iterdir()] == ["in-a"]


def test_one_that_is_missing_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    if not exchange(tmp_path / "a", tmp_path / "b"):
        pytest.skip("this file system cannot")
    with pytest.raises(FileNotFoundError, match="/a"):
        exchange(tmp_path / "a", tmp_path / "c")
