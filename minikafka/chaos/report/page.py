"""The report as one HTML file. Somebody who has never seen the project understands its first sentence."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from importlib import resources
from typing import Final

from minikafka.chaos.report.run import ChaosRun, Fault
from minikafka.chaos.report.timeline import plots
from minikafka.chaos.report.unavailability import LEAST_MS, Window, by_partition, quantile, windows
from minikafka.ledger.judging import meaning
from minikafka.plots.page import card, page, table, tile
from minikafka.plots.timeline import STYLE as TIMELINE_STYLE

LONGEST_SHOWN: Final = 12
_FAULTS_SHOWN: Final = 2


def to_html(run: ChaosRun) -> str:
    """The content of ``report.html``, to be written in UTF-8."""
    css = (resources.files(__package__) / "page.css").read_text(encoding="utf-8")
    return page(f"chaos run, seed {run.seed}", "".join(_body(run)), TIMELINE_STYLE + css)


def _body(run: ChaosRun) -> Iterator[str]:
    found = windows(run)
    kind = "good" if run.ok else "bad" if run.verdict.outcome == "broken" or run.failed else "open"
    word = {"good": "Passed", "bad": "Failed", "open": "Not proved"}[kind]
    yield f"<h1>Chaos run, seed {run.seed}</h1>"
    yield f'<p class="verdict"><b class="{kind}">{word}.</b> {escape(run.sentence)}</p>'
    yield f'<div class="tiles">{"".join(_tiles(run, found))}</div>'
    drawn = "".join(f"<h3>{escape(title)}<span>{escape(words)}</span></h3>{svg}" for title, words, svg in plots(run))
    yield card("Time line", "Shades are the times of faults.", f'<div class="time"><div>{drawn}</div></div>', "timed")
    yield _anomalies(run)
    yield from _unavailability(run, found)
    yield _findings(run)
    yield _again(run)


def _tiles(run: ChaosRun, found: list[Window]) -> Iterator[str]:
    records, transactions = run.verdict.records, run.verdict.transactions
    yield tile("acknowledged records", f"{records.acknowledged:,}", f"of {records.sent:,} that were sent")
    yield tile("of them lost", _bad(run.lost), f"{records.figures['unjudged']:,} not judged")
    yield tile("other anomalies", _bad(run.other_anomalies), "duplicates, wrong order, ...")
    yield tile("of unknown outcome", f"{records.unknown:,}", "their producer got no answer")
    if transactions is not None:
        yield tile("transactions", f"{transactions.begun:,}", f"{transactions.committed:,} committed")
    yield tile("faults", f"{len(run.faults):,}", _kinds(run))
    longest = found[0].length_ms if found else 0
    yield tile("longest without a write", seconds(longest), f"of a partition; {len(found):,} times over {LEAST_MS} ms")
    enough = "" if run.succeeded >= run.needed else "warn"
    yield tile("operations", f"{run.succeeded:,}", f"{run.needed:,} are needed for a proof", enough)


def _bad(count: int) -> str:
    return f'<em class="bad">{count:,}</em>' if count else "0"


def _kinds(run: ChaosRun) -> str:
    kinds = dict.fromkeys(fault.kind for fault in run.faults)
    return escape(f"of {len(kinds)} kind{'' if len(kinds) == 1 else 's'}: {', '.join(kinds)}") if kinds else "none"


def _anomalies(run: ChaosRun) -> str:
    parts = []
    for name, judgement in run.verdict.judgements.items():
        rows = [
            (
                f"<code>{rule}</code>",
                _count(count, is_judged=rule not in run.verdict.rules_not_judged),
                escape(meaning(rule, judgement)),
            )
            for rule, count in judgement.violations.items()
        ]
        shown = table((f"of {name}", "found", "meaning"), rows)
        parts.append(f'<div class="scroll rules">{shown}</div>')
        for rule, examples in judgement.examples.items():
            items = "".join(f"<li>{escape(example)}</li>" for example in examples)
            parts.append(f'<h3 class="bad">{rule} ({judgement.violations[rule]:,})</h3><ul>{items}</ul>')
    if run.verdict.not_judged:
        items = "".join(f"<li>{escape(each)}</li>" for each in run.verdict.not_judged)
        parts.append(f"<h3>Not judged</h3><ul>{items}</ul>")
    return card("Anomalies", "by the names of Jepsen's Kafka workload", "".join(parts), "anomalies")


def _count(count: int, *, is_judged: bool) -> str:
    if count:
        return f'<b class="bad">{count:,}</b>'
    return '<span class="good">0</span>' if is_judged else '<span class="open">not judged</span>'


def _unavailability(run: ChaosRun, found: list[Window]) -> Iterator[str]:
    lengths = sorted(window.length_ms for window in found)
    words = (
        f"A window is {LEAST_MS} ms or more without an acknowledged write, while the load ran. "
        f"Of all {len(lengths):,}: median {seconds(quantile(lengths, 0.5))}, 99 % up to "
        f"{seconds(quantile(lengths, 0.99))}, the longest {seconds(lengths[-1])}."
        if lengths
        else f"There was none: no partition was without an acknowledged write for {LEAST_MS} ms while the load ran."
    )
    rows = [
        (
            escape(each.partition),
            f"{each.windows:,}",
            *((seconds(ms) if each.windows else "–") for ms in (each.p50_ms, each.p99_ms, each.max_ms, each.total_ms)),
        )
        for each in by_partition(run, found)
    ]
    names = ("partition", "windows", "median", "99 %", "longest", "all together")
    yield card("Unavailability", words, f'<div class="scroll">{table(names, rows)}</div>')
    if found:
        shown = [
            (
                escape(window.partition),
                seconds(window.length_ms),
                f"{window.begin_ms / 1000:.2f} s",
                "<br>".join(map(escape, _in_force(window.faults))),
            )
            for window in found[:LONGEST_SHOWN]
        ]
        told = table(("partition", "length", "from", "faults in force"), shown)
        yield card("Longest windows", f"{len(shown)} of {len(found):,}", f'<div class="scroll longest">{told}</div>')


def _in_force(faults: tuple[Fault, ...]) -> list[str]:
    named = [f"{fault.sentence} ({_when(fault)})" for fault in faults[:_FAULTS_SHOWN]]
    more = len(faults) - len(named)
    return [*named, f"and {more} more"] if more else named or ["none"]


def _when(fault: Fault) -> str:
    end = "" if fault.end_ms is None else f"{fault.end_ms / 1000:.2f}"
    return f"{fault.begin_ms / 1000:.2f}–{end} s"


def _findings(run: ChaosRun) -> str:
    rows = [
        (
            escape(finding.name),
            '<span class="good">yes</span>' if finding.ok else '<b class="bad">no</b>',
            escape(finding.sentence),
        )
        for finding in run.findings
    ]
    shown = table(("check", "holds", "found"), rows) if rows else ""
    words = "of the cluster, when the load had ended and every fault was mended" if rows else "There was none."
    return card("Checks after the run", words, f'<div class="scroll rules">{shown}</div>')


def _again(run: ChaosRun) -> str:
    about = {
        "workload": run.workload,
        "client": run.client,
        "duration": seconds(run.duration_ms),
        "seed": str(run.seed),
    }
    parts = "".join(
        f'<div class="card"><h2>{title}</h2>{_pairs(values)}</div>'
        for title, values in (("Run", about), ("Versions", run.versions), ("Settings", run.settings))
    )
    return (
        f'<div class="card"><h2>Run it again</h2><p>The same seed plans the same faults.</p>'
        f'<code class="command">{escape(run.command)}</code></div><div class="plots">{parts}</div>'
    )


def _pairs(values: Mapping[str, str]) -> str:
    rows = "".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in values.items())
    return f'<div class="scroll"><table>{rows}</table></div>'


def seconds(ms: int) -> str:
    """``250 ms``, ``1.25 s``, ``120 s``."""
    if ms < 1000:
        return f"{ms} ms"
    return f"{ms / 1000:.2f} s" if ms < 10_000 else f"{ms / 1000:.1f} s" if ms < 100_000 else f"{ms / 1000:.0f} s"
