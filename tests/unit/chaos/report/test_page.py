"""The page and the values of a run: its verdict at the top, escaped, and nothing that it loads."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from chaos_runs import chaos_run

from minikafka.chaos.report import ChaosRun, Fault, Finding, as_dict
from minikafka.chaos.report.page import to_html

VOID = {"meta", "br"}


class Balance(HTMLParser):
    """Whether every element is closed, and its text."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.text = ""

    def handle_starttag(self, tag: str, attrs: object) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def text_of(run: ChaosRun) -> str:
    html = to_html(run)
    parser = Balance()
    parser.feed(html)
    assert parser.open == []
    assert not re.search(r"<script|<link|src=|url\(|@import", html)
    return parser.text


def test_a_run_with_many_faults() -> None:
    run = chaos_run()
    text = text_of(run)
    assert run.ok
    assert f"Passed. The cluster kept its word: of {run.verdict.records.acknowledged:,} records" in text
    assert "none was lost, doubled, reordered or changed" in text
    for word in ("Throughput", "In-sync replicas", "Elections", "orders-11", "12 of ", run.command, "librdkafka"):
        assert word in text
    assert all(fault.sentence in text for fault in run.faults)


def test_paper_has_the_whole_time_line() -> None:
    """It has a least width and scrolls on a narrow screen. Paper does not scroll: the last seconds were cut off."""
    wide = to_html(chaos_run()).partition(".time > div { min-width: 760px; }")[2]
    assert re.search(r"@media print \{ \.time > div \{ min-width: 0; \}", wide)


def test_the_time_line_has_the_end_of_a_load_that_began_late() -> None:
    """It was as long as the load, and began with the history: the last seconds were cut off, and of a round in
    containers, whose image is built first, nearly all."""
    run, late_ms = chaos_run(seconds=60), 60_000
    later = replace(
        run,
        load_begin_ms=run.load_begin_ms + late_ms,
        load_end_ms=run.load_end_ms + late_ms,
        faults=[
            each._replace(begin_ms=each.begin_ms + late_ms, end_ms=each.end_ms and each.end_ms + late_ms)
            for each in run.faults
        ],
        samples=[each._replace(t_ms=each.t_ms + late_ms) for each in run.samples],
    )
    assert ">100 s<" in to_html(later)
    assert ">100 s<" not in to_html(run)


@pytest.mark.parametrize(
    ("violations", "said"),
    [
        ({"duplicate": 1}, ": 1 record is there twice."),
        ({"lost-write": 1, "nonmonotonic-send": 2}, " acknowledged records is gone, 2 records are in the wrong order."),
    ],
)
def test_what_is_wrong_is_counted(violations: dict[str, int], said: str) -> None:
    run = chaos_run()
    records = replace(run.verdict.records, violations=run.verdict.records.violations | violations)
    assert replace(run, verdict=replace(run.verdict, records=records)).sentence.endswith(said)


def test_what_a_producer_sent_twice_is_said() -> None:
    run = chaos_run()
    run = replace(run, verdict=replace(run.verdict, records=replace(run.verdict.records, resent=33)))
    assert run.ok
    assert run.sentence.endswith("or changed; 33 there more than once, as their producer sent them.")


def test_lost_records_are_said_in_the_first_sentence() -> None:
    run = chaos_run(partitions=2, seconds=15, faults=3, lost=2)
    text = text_of(run)
    assert f"Failed. The cluster broke its word: 2 of {run.verdict.records.acknowledged:,} acknowledged records" in text
    assert "are gone, 2 other anomalies were found." in run.sentence
    assert all(example in text for examples in run.verdict.records.examples.values() for example in examples)


@pytest.mark.parametrize(
    ("changed", "word", "sentence"),
    [
        ({"needed": 10**6}, "Not proved", "too little was done to prove anything"),
        ({"findings": [Finding("one leader per epoch", False, "two of t-0")]}, "Failed", "check of the cluster failed"),
        ({"faults": [], "samples": []}, "Passed", "that it acknowledged in "),
    ],
)
def test_other_outcomes(changed: dict[str, object], word: str, sentence: str) -> None:
    run = replace(chaos_run(partitions=1, seconds=5, faults=1), **changed)  # type: ignore[arg-type]
    assert sentence in run.sentence
    assert f"{word}. {run.sentence}" in text_of(run)
    assert run.ok == (word == "Passed")


def test_what_nobody_read_is_not_proved() -> None:
    run = chaos_run(partitions=1, seconds=5, faults=1, unread=True)
    assert run.sentence.startswith("Nothing wrong was found, but this proves nothing: ")
    assert run.sentence.endswith(" acknowledged records were not looked for afterwards.")
    assert f"Not proved. {run.sentence}" in text_of(run)
    assert not run.ok
    down = replace(run, findings=[Finding("records are taken again", False, "not within 60 s")])
    assert " were not looked for afterwards), but a check of the cluster failed: records" in down.sentence


def test_names_are_escaped() -> None:
    run = chaos_run(partitions=1, seconds=5, faults=0)
    fault = Fault("<kind>", "<b>&\x00", 100, None)
    html = to_html(replace(run, faults=[fault], command="<i>", settings={"<s>": "&"}, client="<c>"))
    assert not re.search(r"<(b>&|i>|s>|c>|kind)", html)
    assert "the end of the run" in html


def test_the_values_are_json_and_agree_with_the_page() -> None:
    run = chaos_run(partitions=2, seconds=15, faults=3, lost=2)
    told = json.loads(json.dumps(as_dict(run)))
    assert (told["ok"], told["sentence"], told["seed"]) == (False, run.sentence, 7)
    assert told["verdict"]["records"]["violations"]["lost-write"] == 2
    assert len(told["samples"]) == len(run.samples)
    assert told["samples"][0]["partitions"][1]["partition"] == "orders-1"
    assert told["faults"][0] == run.faults[0]._asdict()
    assert sum(each["windows"] for each in told["unavailability"]["partitions"]) == len(
        told["unavailability"]["windows"]
    )


def test_the_axis_of_time_goes_on_to_the_last_sample() -> None:
    """It was as long as the load, and began before it: how the cluster healed was not to be seen."""
    run = chaos_run(partitions=1, seconds=5, faults=1)
    late = run.samples[-1]._replace(t_ms=40_000)
    assert "<text>40 s</text>" not in compact(to_html(run))
    assert "<text>40 s</text>" in compact(to_html(replace(run, samples=[*run.samples, late])))


def compact(html: str) -> str:
    return re.sub(r"<text [^>]*>", "<text>", html)
