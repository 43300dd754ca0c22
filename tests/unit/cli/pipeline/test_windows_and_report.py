"""The verbs ``windows`` and ``report``: what they print, and what they refuse before Spark is started."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import COMMAND

from minikafka.cli.pipeline.report import _print as print_report
from minikafka.cli.pipeline.windows import _print as print_windows
from minikafka.spark.pipelines.report.measures import Measures, Often, PartitionReport, Slots, TopicReport
from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.windows import WindowsSummary

RUN = WindowsSummary(read=12_000, unfit=3, written=40, batches=2, open_windows=7, is_resumed=True, is_stopped=True)
SOME = Measures(records=10, key_bytes=50, value_bytes=1000, keys=3, last_ms=1000)
REPORT = TopicReport(
    topic="orders",
    cluster_id="a",
    made_ms=0,
    total=SOME,
    partitions=(PartitionReport(0, 0, 12, SOME), PartitionReport(1, 0, 0)),
    slots=Slots(0, 1000, 2),
    over_time=(SOME, Measures()),
    earlier=0,
    later=0,
    sizes=(),
    hot_keys=(Often("[red]", 7),),
    header_names=(Often("trace", 5),),
)


def test_the_summary_says_what_was_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    print_windows(RUN, "some/dir", as_json=False)
    out = capsys.readouterr().out
    assert "12,000" in out
    assert "left out: unfit" in out
    assert "left out: late" not in out


def test_the_summary_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    print_windows(RUN, "some/dir", as_json=True)
    printed = json.loads(capsys.readouterr().out)
    assert (printed["read"], printed["unfit"], printed["checkpoint"]) == (12_000, 3, "some/dir")


def test_a_report_is_a_table_within_a_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_report(REPORT)
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines)) <= 80
    assert any("[red]" in line for line in lines)  # a key is no markup


def test_wrong_words_are_refused_at_once(tmp_path: Path) -> None:
    run = CliRunner().invoke
    words = ["pipeline", "windows", "orders", "--to", "totals"]
    assert isinstance(run(COMMAND, [*words, "--window", "10"]).exception, PipelineError)
    assert run(COMMAND, [*words, "--from", "yesterday"]).exit_code == 2
    assert run(COMMAND, ["pipeline", "report", "orders", "--html", str(tmp_path / "no" / "page.html")]).exit_code == 2
