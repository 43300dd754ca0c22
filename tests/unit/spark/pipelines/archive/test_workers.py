"""Tasks in processes of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest
from live_cluster import eventually

from minikafka.spark.pipelines.archive.workers import running
from minikafka.spark.pipelines.running import PipelineError

PID = "__import__('os').getpid()"


def test_tasks_share_processes_and_their_errors_are_told() -> None:
    with running(None, 2) as run:
        assert run.parallel == 2
        assert run([3, 1, 2], abs) == [3, 1, 2]
        assert len(set(run([PID] * 6, eval))) <= 2
        with pytest.raises(PipelineError, match="invalid literal for int"):
            run(["1", "x"], int)
        with pytest.raises(PipelineError, match="a process that archives ended with 7"):
            run([7], os._exit)
        with pytest.raises(TypeError, match="cannot pickle"):
            run([os], bool)
        with pytest.raises(PipelineError, match="a process that archives ended with 0"):
            run([0], _unknown_there)
        assert run(["4", "5"], int) == [4, 5]


def _unknown_there(_: object) -> None:
    """A process cannot import the modules of tests."""


def test_a_process_ends_with_its_driver() -> None:
    """Also while it works."""
    driver = """
from minikafka.spark.pipelines.archive.workers import running
with running(None, 1) as run:
    print(*run(["__import__('os').getpid()"], eval), flush=True)
    run(["__import__('time').sleep(3600)"], eval)
"""
    with subprocess.Popen([sys.executable, "-c", driver], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        pid = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
    eventually(lambda: not _is_there(pid), "the end of the process")


def _is_there(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    with open(f"/proc/{pid}/stat") as file:
        return file.read().rpartition(")")[2].split()[0] != "Z"
