"""What a lab tells reaches its narrator and its outcome, and what was not seen is named."""

from __future__ import annotations

from pathlib import Path

import pytest

from minikafka.chaos.lab.stage import Expectation, NotSeenError, Outcome, Stage, Step
from minikafka.chaos.local_cluster import LocalCluster


class Written:
    def __init__(self) -> None:
        self.steps: list[tuple[float, str]] = []

    def step(self, seconds: float, text: str) -> None:
        self.steps.append((seconds, text))


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        self.now += 0.5
        return self.now


@pytest.fixture
def written() -> Written:
    return Written()


@pytest.fixture
def stage(tmp_path: Path, written: Written) -> Stage:
    return Stage("a-lab", LocalCluster.create(tmp_path / "cluster"), written, Clock())


def test_steps_have_their_time(stage: Stage, written: Written) -> None:
    stage.say("first")
    stage.say("second")
    assert written.steps == [(0.5, "first"), (1.0, "second")]
    assert stage.outcome.steps == [Step(0.5, "first"), Step(1.0, "second")]


def test_what_was_not_seen_is_told_at_once(stage: Stage, written: Written) -> None:
    stage.expect("a loss", True)
    stage.expect("a leader", False)
    assert stage.outcome.expected == [Expectation("a loss", True), Expectation("a leader", False)]
    assert stage.outcome.unseen == ["a leader"]
    assert [text for _, text in written.steps] == ["not seen: a leader"]
    assert not stage.outcome.ok


def test_a_lab_that_expects_nothing_shows_nothing() -> None:
    assert not Outcome("a-lab").ok


def test_a_condition_is_waited_for(stage: Stage) -> None:
    answers = iter([None, [], [7]])
    assert stage.wait("a number", lambda: next(answers)) == [7]


def test_a_condition_that_does_not_come_is_named(stage: Stage) -> None:
    with pytest.raises(NotSeenError, match=r"a number \(waited for 1 s\)"):
        stage.wait("a number", lambda: None, timeout_s=1)


def test_measured_values_are_rounded(stage: Stage) -> None:
    stage.measure(seconds=1.23456, lost=3)
    stage.measure(told="_FENCED")
    assert stage.outcome.measured == {"seconds": 1.235, "lost": 3, "told": "_FENCED"}
