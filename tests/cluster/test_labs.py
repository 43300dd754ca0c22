"""Labs on real clusters: two of the ten in full, one that does not see what it expects, and one that is interrupted."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from cluster_cli import take_ctrl_c
from command_line import COMMAND

from minikafka.chaos.lab.gallery import LABS
from minikafka.chaos.lab.lab import Lab
from minikafka.chaos.lab.stage import Stage
from minikafka.cli.run import INTERRUPTED


@pytest.fixture(autouse=True)
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files of labs are."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    return tmp_path


@pytest.mark.parametrize("name", ["min-isr", "rack"])
def test_a_lab_sees_what_it_is_there_to_show_and_leaves_nothing(name: str, temporary: Path) -> None:
    result = CliRunner().invoke(COMMAND, ["chaos", "lab", name, "--json"])
    outcome = json.loads(result.stdout)
    assert (result.exit_code, outcome["ok"]) == (0, True), result.stderr
    assert all(each["seen"] for each in outcome["expected"])
    assert outcome["steps"][0]["text"] == "3 brokers are ready"
    assert outcome["happened"]
    assert "\nIn production\n" in result.stderr
    assert not [*temporary.glob("minikafka-lab-*")]


def test_a_lab_that_does_not_see_it_fails_and_keeps_the_logs(temporary: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Vain(Lab):
        name = "vain"
        summary = "a second node"
        watch = ("Watch.",)
        matters = "none"
        advice = ("None.",)
        voters = 1

        def run(self, stage: Stage) -> None:
            stage.expect("the first node", stage.cluster.running().keys() == {1})
            stage.wait("a second node", lambda: 2 in stage.cluster.running(), timeout_s=0.1)

    monkeypatch.setitem(LABS, Vain.name, Vain)
    result = CliRunner().invoke(COMMAND, ["chaos", "lab", "vain"])
    assert result.exit_code == 1
    assert result.stdout.endswith("not seen: a second node (waited for 0.1 s)\n")
    (kept,) = temporary.glob("minikafka-lab-*")
    assert f"the brokers' logs and data are in {kept}" in result.stderr
    assert (kept / "cluster" / "node-1" / "broker.log").exists()


def test_an_interrupted_lab_ends_quietly_and_leaves_nothing(temporary: Path) -> None:
    command = [sys.executable, "-u", "-m", "minikafka", "chaos", "lab", "min-isr"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=take_ctrl_c) as lab:
        try:
            assert lab.stdout is not None
            while "brokers are ready" not in lab.stdout.readline():
                assert lab.poll() is None
            lab.send_signal(signal.SIGINT)
            _, said = lab.communicate(timeout=30)
        finally:
            if lab.poll() is None:
                lab.kill()
    assert (lab.returncode, said) == (INTERRUPTED, "")
    assert not [*temporary.glob("minikafka-lab-*")]
