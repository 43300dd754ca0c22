"""The verb ``audit``: how a verdict is printed."""

from __future__ import annotations

import pytest

from minikafka.cli.pipeline.audit import print_verdict
from minikafka.spark.pipelines.audit.verdict import AuditVerdict, PartitionVerdict

FINE = PartitionVerdict("orders-0", 198_565_000, 198_565_000, 198_565_000)
BROKEN = PartitionVerdict(
    "orders-1",
    *(198_565_000, 198_565_000, 198_564_998, 12),
    violations={"lost-write": 2, "duplicate": 0, "nonmonotonic-send": 1},
    examples={"lost-write": ("a was acknowledged at 7 and never read, though 9 was",)},
)


def test_a_verdict_is_a_table_within_a_terminal_that_names_what_is_broken(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    print_verdict(AuditVerdict((FINE, BROKEN)))
    lines = capsys.readouterr().out.splitlines()
    assert max(map(len, lines[:8])) <= 80
    by_name = {line.split()[0]: line.split() for line in lines if line.strip()}
    assert by_name["orders-0"][1:] == ["198,565,000"] * 3 + ["0", "nothing"]
    assert by_name["orders-1"][-2:] == ["lost-write", "2,"]
    assert by_name["nonmonotonic-send"] == ["nonmonotonic-send", "1"]
    assert by_name["all"][1] == "397,130,000"
    assert "  orders-1: a was acknowledged at 7 and never read, though 9 was" in lines
    assert lines[-1] == "the cluster broke its word: lost-write 2, nonmonotonic-send 1"


def test_a_partition_that_nobody_read_to_the_end_is_not_called_fine(capsys: pytest.CaptureFixture[str]) -> None:
    print_verdict(AuditVerdict((PartitionVerdict("orders-0", 3, 3, 3), PartitionVerdict("orders-1", 3, 2, 1, 1, 2))))
    lines = capsys.readouterr().out.splitlines()
    rows = {line.split()[0]: line.split() for line in lines if line.strip()}
    assert rows["orders-0"][-1] == "nothing"
    assert rows["orders-1"][-2:] == rows["all"][-2:] == ["not", "judged"]
    assert lines[-1] == "not judged: no reader that read to the end looked for 2 of 5 acknowledged records"
