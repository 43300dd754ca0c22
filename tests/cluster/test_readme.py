"""The README's test of an application, as a user runs it; and what becomes of its brokers when it is killed."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from live_cluster import eventually, free_base_port, running_cluster

import minikafka
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.local_cluster import LocalCluster
from minikafka.chaos.processes import look_up

ROOT = Path(minikafka.__file__).parent.parent
DRIVER = """
import sys
from pathlib import Path
from minikafka.chaos.local_cluster import LocalCluster

cluster = LocalCluster.create(Path(sys.argv[1]), brokers=2, base_port=int(sys.argv[2]), detached=False)
cluster.start()
cluster.pause(2)
print(*(process.pid for process in cluster.running().values()), flush=True)
sys.stdin.read()
"""


def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    example = re.search(r"```python\n(import pytest.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    assert example is not None
    tmp_path.joinpath("test_orders.py").write_text(example[1])
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "test_orders.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stdout
    assert "1 passed" in done.stdout


def test_brokers_end_with_the_process_that_started_them_paused_ones_too(tmp_path: Path) -> None:
    words = [sys.executable, "-c", DRIVER, str(tmp_path / "c"), str(free_base_port(2))]
    with subprocess.Popen(
        words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=_environment()
    ) as driver:
        assert driver.stdout is not None
        pids = [int(pid) for pid in driver.stdout.readline().split()]
        assert len(pids) == 2
        driver.send_signal(signal.SIGKILL)
        driver.wait()
    eventually(lambda: not any(look_up(pid, "minikafka.broker") for pid in pids), "the brokers to end")
    assert LocalCluster.open(tmp_path / "c").running() == {}


def test_the_leader_of_a_partition_can_be_asked_for(tmp_path: Path) -> None:
    with running_cluster(tmp_path / "c", brokers=1) as cluster:
        with pytest.raises(ClusterError, match="partition orders-0 not found"):
            cluster.leader_of("orders")
        command = [sys.executable, "-m", "minikafka", "topic", "create", "orders", "-b", cluster.bootstrap_servers]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=_environment())
        assert cluster.leader_of("orders") == 1
        cluster.kill(1)
        with pytest.raises(ClusterError, match="no node answers"):
            cluster.leader_of("orders")


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}
