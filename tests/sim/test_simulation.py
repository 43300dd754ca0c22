"""A small fixed sample of simulated clusters; ``make sim SEEDS=1000`` runs as many as you like."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from sim_scenario import logs_to
from sim_watchdog import EndlessTurnError, no_endless_turn
from simulator.loop import Simulator
from simulator.network.network import Network

from minikafka.broker.node import log

PROGRAM = Path(__file__).parent / "sim_main.py"
PATIENCE_S = 900
SHORT = ("--duration", "1.5")


@cache
def simulate(*options: str, hash_seed: int = 0) -> subprocess.CompletedProcess[str]:
    """Run the program in a process of its own: nothing of the clusters that it kills is left behind."""
    return subprocess.run(
        [sys.executable, str(PROGRAM), *options],
        env=os.environ | {"PYTHONHASHSEED": str(hash_seed)},
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
        check=False,
    )


def test_the_same_seed_is_the_same_run() -> None:
    traces = []
    for hash_seed in (1, 2):  # it does not hang on the order of sets
        done = simulate("--seed", "8", *SHORT, hash_seed=hash_seed)
        assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
        *trace, summary = done.stdout.splitlines()
        timeless = [field for field in summary.split(", ") if "CPU" not in field]
        traces.append((trace, timeless))
    assert traces[0] == traces[1]
    assert len(traces[0][0]) > 50


def test_nodes_are_heard() -> None:
    """For some hours no simulation heard what its nodes logged, and none failed."""
    heard: list[str] = []
    with logs_to(lambda _who, what: heard.append(what)) as failures:
        log.info("started", listeners=3)
        log.critical("the node stops", why="disk failure")
        assert not failures
        log.critical("the node stops", why="a bug")
    assert heard[0] == "[info] started listeners=3"
    assert failures == [f"-: {heard[2]}"]


@pytest.mark.long
def test_another_seed_is_another_run() -> None:
    first, second = (simulate("--seed", seed, *SHORT, hash_seed=1).stdout.splitlines()[-1] for seed in ("8", "7"))
    assert first.split()[-1] != second.split()[-1]


@pytest.mark.spec("P1")
@pytest.mark.spec("P2")
@pytest.mark.spec("P3")
@pytest.mark.spec("P6")
@pytest.mark.spec("T2", "T3", "T4", "T23", "T40", "T42")
@pytest.mark.spec("G1", "G3", "G5", "G7", "G11")
def test_a_sample_of_seeds() -> None:
    """The last one has transactions in compacted topics."""
    done = simulate("--seeds", "4", "--first", "9", "--duration", "4")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "4 seeds from 9" in done.stdout
    assert "transactions in 1 runs: " in done.stdout
    assert "consumer groups in 1 runs: " in done.stdout


@pytest.mark.spec("P1")
def test_rights_come_and_go() -> None:
    done = simulate("--seeds", "1", "--first", "5", "--duration", "3", "--scene", "rights")
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "rights in 1 runs: granted" in done.stdout


def test_a_turn_that_never_ends_is_ended() -> None:
    simulator = Simulator(1)
    process = Network(simulator).process("somewhere")

    async def go_on_for_ever() -> None:
        while True:
            pass

    with no_endless_turn(simulator, max_cpu_s=0.1), pytest.raises(EndlessTurnError, match="go_on_for_ever"):
        simulator.run_until_done(process.spawn(go_on_for_ever()), limit_s=1.0)
