"""A real file in through one program and out through another, unchanged."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

from minikafka.chaos.local_cluster import LocalCluster

STDLIB = Path(sysconfig.get_paths()["stdlib"])


def minikafka(cluster: LocalCluster, *arguments: str) -> bytes:
    """What the command line prints, asked to do something with this cluster."""
    words = [sys.executable, "-m", "minikafka.cli.main", *arguments, "--dir", str(cluster.layout.directory)]
    finished = subprocess.run(words, capture_output=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stderr.decode()
    return finished.stdout


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
    name = f"file-{compression}"
    minikafka(server, "topic", "create", name, "--partitions", "1", "--replication-factor", "3")
    minikafka(server, "produce", name, "--file", str(sources), "--compression", compression)
    lines = sources.read_bytes().count(b"\n")
    assert minikafka(server, "consume", name, "--from-beginning", "--count", str(lines)) == sources.read_bytes()
