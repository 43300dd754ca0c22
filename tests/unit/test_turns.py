"""How the tests judge turns of loops that nodes report."""

from __future__ import annotations

import json
from pathlib import Path

import live_turns
import pytest
from live_turns import MAY_BE_SLOW, Reports, may_be_slow

ROOT = Path(__file__).parents[2]


@pytest.fixture(autouse=True)
def at_usual_speed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_turns, "_work_ms", lambda: live_turns.REFERENCE_WORK_MS)


def report(cpu_ms: int) -> str:
    return json.dumps({"node": 2, "directory": "/data", "cpu_ms": cpu_ms, "where": "a.py:1 work"})


def test_each_slow_turn_is_told_once(tmp_path: Path) -> None:
    file = tmp_path / "reports"
    reports = Reports(file)
    assert reports.new() == []
    slow, quick = report(live_turns.TURN_MAX_MS + 1), report(live_turns.TURN_MAX_MS)
    file.write_text(f"{quick}\n{slow}\n{slow[:9]}")
    (told,) = reports.new()
    assert told == (
        f"node 2 in /data: a turn of its loop took {live_turns.TURN_MAX_MS + 1} ms of CPU time in a.py:1 work"
    )
    assert reports.new() == []
    file.write_text(f"{quick}\n{slow}\n{slow}\n")
    assert len(reports.new()) == 1


def test_more_is_allowed_on_a_slow_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_turns, "_work_ms", lambda: 3 * live_turns.REFERENCE_WORK_MS)
    file = tmp_path / "reports"
    file.write_text(report(3 * live_turns.TURN_MAX_MS) + "\n")
    assert Reports(file).new() == []


def test_a_slow_turn_fails_the_test_that_is_torn_down(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = next(plugin for plugin in request.config.pluginmanager.get_plugins() if hasattr(plugin, "SLOW_TURNS"))
    file = tmp_path / "reports"
    monkeypatch.setattr(hooks, "SLOW_TURNS", Reports(file))
    teardown = hooks.pytest_runtest_teardown(request.node)
    next(teardown)
    file.write_text(report(live_turns.TURN_MAX_MS + 1) + "\n")
    with pytest.raises(pytest.fail.Exception, match="node 2 in /data: a turn of its loop took"):
        next(teardown)


def test_the_exceptions_are_tests() -> None:
    assert all((ROOT / test.partition("::")[0]).exists() for test in MAY_BE_SLOW)
    assert all(may_be_slow(test) for test in MAY_BE_SLOW)
    assert not may_be_slow("tests/cluster/test_kills.py::test_a")
