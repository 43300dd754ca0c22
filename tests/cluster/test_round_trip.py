"""A real file in through one program and out through another, unchanged."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest
from cluster_cli import CommandLine

from minikafka.chaos.local_cluster import LocalCluster

STDLIB = Path(sysconfig.get_paths()["stdlib"])


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some of Python's own sources in one file: 20,000 lines and more, empty ones and non-ASCII ones among them."""
    path = tmp_path_factory.mktemp("sources") / "sources.txt"
    names = ["typing.py", "argparse.py", "inspect.py", "tarfile.py", "locale.py", "_pydecimal.py", "asyncio/events.py"]
    path.write_bytes(b"".join(STDLIB.joinpath(name).read_bytes() for name in names))
    assert path.read_bytes().count(b"\n") > 15_000
    assert b"\n\n" in path.read_bytes()
    return path


@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_a_file_comes_out_as_it_went_in(server: LocalCluster, sources: Path, compression: str) -> None:
    minikafka, name = CommandLine(server.layout.directory), f"file-{compression}"
    minikafka("topic", "create", name, "--partitions", "1", "--replication-factor", "3")
    minikafka("produce", name, "--file", str(sources), "--compression", compression)
    lines = sources.read_bytes().count(b"\n")
    assert minikafka("consume", name, "--from-beginning", "--count", str(lines)) == sources.read_bytes()
