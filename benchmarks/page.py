"""``python -m benchmarks.page``: write ``results.md`` and its plots from ``results.json``, which ``--json`` wrote."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Final

from benchmarks.apache_kafka import VERSION
from benchmarks.beside.sides import OURS, THEIRS
from benchmarks.report import number
from minikafka.plots import STYLE, Mark, bars, lines, short

HERE: Final = Path(__file__).resolve().parent
RESULTS: Final = HERE / "results.json"
PAGE: Final = HERE / "results.md"
PLOTS: Final = HERE / "plots"
_LIGHT: Final = "--card: #ffffff; --ink: #1f2328; --soft: #57606a; --grid: #d8dee4; --one: #2f6fde; --two: #d9622b;"
_DARK: Final = "--card: #0d1117; --ink: #f0f6fc; --soft: #9198a1; --grid: #262c36; --one: #6aa0ff; --two: #f08a52;"
_COLOURS: Final = f":root {{ {_LIGHT} }} @media (prefers-color-scheme: dark) {{ :root {{ {_DARK} }} }}"

NAME_LENGTH_MAX: Final = 40
"""Of bars."""

Figures = list[dict[str, Any]]


def main() -> int:
    """Write them anew."""
    results: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text())
    PLOTS.mkdir(exist_ok=True)
    for old in PLOTS.glob("*.svg"):
        old.unlink()
    shown = []
    for name, (title, draw) in _PLOTS.items():
        if (drawing := draw(results)) is not None:
            (PLOTS / f"{name}.svg").write_text(_alone(drawing))
            shown.append(f"**{title}**\n\n![{title}](plots/{name}.svg)\n")
    PAGE.write_text("\n".join([_head(results), *shown, *_tables(results)]))
    return 0


def _head(results: dict[str, dict[str, Any]]) -> str:
    machines = sorted({told["machine"] for told in results.values()})
    days = sorted({told["when"] for told in results.values()})
    return f"""\
# minikafka beside Apache Kafka

Three nodes of minikafka and three of Apache Kafka {VERSION} (broker and voter each, heap and settings of its own
start script) on one machine, both up at the same time, with the same load by turns (but for idle partitions and
connections, where each is up by itself: idle nodes use CPU, too). The load is a program in C over
librdkafka (`beside/generator.c`). Each side is heated for a minute and a half; then each load runs until two turns of a
side agree in CPU and latency, so that a JVM has compiled what it needs; then it is measured five times on each side, or
fifteen times where a turn is short. What was measured is the median of the ratios, ours to theirs, unless it has a
unit. CPU is that of all three nodes, from the operating system; on a machine that others use, too, it says more than
time does.

| | |
|---|---|
| machine | {"; ".join(machines)} |
| measured | {days[0]}{"" if len(days) == 1 else f" to {days[-1]}"} |
| command | `make bench ARGS='beside --json benchmarks/results.json'`, then `python -m benchmarks.page` |

Where the time goes, and why some targets are missed: [performance](../docs/internals/performance.md). Everything else
that is measured: [README](README.md).
"""


def _tables(results: dict[str, dict[str, Any]]) -> Iterator[str]:
    for name, told in results.items():
        yield f"## {told['summary'][0].upper()}{told['summary'][1:]}\n"
        others = f"others used {told['others_used_cores']} cores meanwhile"
        yield f"`python -m benchmarks {name}`: {told['seconds']} s; {others}.\n"
        yield f"| | {OURS} | the other | measured | target | |\n|---|---|---|---|---|---|"
        yield "\n".join(map(_row, told["figures"])) + "\n"


def _row(figure: dict[str, Any]) -> str:
    compared = figure["compared"]
    ours = theirs = ""
    if compared is not None:
        ours = f"{number(compared['ours'])} {compared['unit']}"
        theirs = "" if compared["theirs"] is None else f"{number(compared['theirs'])} {compared['unit']}"
    verdict = {None: "", True: "met", False: "**missed**"}[figure["met"]]
    measured = f"{number(figure['value'])} {figure['unit']}".strip()
    return f"| {figure['name'].strip()} | {ours} | {theirs} | {measured} | {figure['target'] or ''} | {verdict} |"


# -- plots ------------------------------------------------------------------------------------------------------------


def _of(results: dict[str, dict[str, Any]], *names: str) -> Figures:
    return [figure for name in names for figure in results.get(f"beside.{name}", {"figures": []})["figures"]]


def _unit(figure: dict[str, Any]) -> str:
    """Of the two medians that it compares."""
    return figure["compared"]["unit"] if figure["compared"] else ""


def _times(value: float) -> str:
    return f"{value:.2g} x"


def _rates(results: dict[str, dict[str, Any]]) -> str | None:
    found = [
        f for f in _of(results, "small", "batches", "consuming") if f["compared"] and f["compared"]["unit"] == "/s"
    ]
    marks = [Mark(f["value"], f["name"], f["note"]) for f in found]
    return (
        bars(marks, about="throughput, times Apache Kafka's", form=_times, name_length_max=NAME_LENGTH_MAX)
        if marks
        else None
    )


def _cpu(results: dict[str, dict[str, Any]]) -> str | None:
    marks, what = [], ""
    for figure in _of(results, "small", "batches", "consuming"):
        if _unit(figure) == "/s":
            what = figure["name"]
        elif _unit(figure) == "us" and not figure["unit"]:
            marks.append(Mark(figure["value"], what, figure["note"]))
    return (
        bars(marks, about="CPU for a record, times Apache Kafka's", form=_times, name_length_max=NAME_LENGTH_MAX)
        if marks
        else None
    )


def _latency(results: dict[str, dict[str, Any]]) -> str | None:
    found = _of(results, "latency")
    starts = [at for at, figure in enumerate(found) if figure["name"].startswith("from record to answer, 1,000/s, p50")]
    if not starts:
        return None
    names = ("p50", "p99", "p99.9")
    quantiles = found[starts[0] : starts[0] + len(names)]
    return _two_lines(names, quantiles, "latency at 1,000 records a second")


def _growth(results: dict[str, dict[str, Any]]) -> str | None:
    found = [figure for figure in _of(results, "growth") if "partitions" in figure["name"]]
    names = [figure["name"].split()[2] for figure in found]
    return _two_lines(names, found, "p50 of the latency by idle partitions") if found else None


def _two_lines(names: Sequence[str], figures: Figures, about: str) -> str:
    series = {
        side: [
            Mark(figure["compared"][key], name, f"{side}, {name}") for name, figure in zip(names, figures, strict=True)
        ]
        for side, key in ((OURS, "ours"), (THEIRS, "theirs"))
    }
    return lines(series, about=about, form=lambda ms: f"{number(ms)} ms")


def _outages(results: dict[str, dict[str, Any]]) -> str | None:
    marks = [
        Mark(figure["compared"][key], f"{figure['name'].split(':')[0].removeprefix('leader ')}, {side}", figure["note"])
        for figure in _of(results, "outages")
        for side, key in ((OURS, "ours"), (THEIRS, "theirs"))
    ]
    return (
        bars(marks, about="pause", form=lambda s: f"{short(s)} s", name_length_max=NAME_LENGTH_MAX) if marks else None
    )


_PLOTS: Final = {
    "throughput": ("Throughput, times Apache Kafka's", _rates),
    "cpu": ("CPU of all nodes for a record, times Apache Kafka's (less is better)", _cpu),
    "latency": ("From a record to its answer at 1,000 records a second", _latency),
    "growth": ("From a record to its answer at 1,000 records a second, p50, with so many idle partitions", _growth),
    "outages": ("No writes to a partition for so long, median", _outages),
}


def _alone(drawing: str) -> str:
    """The plot as a picture of its own, on a card."""
    opening, closing = drawing.split(">", 1)
    style = f"<style>{_COLOURS} {STYLE} svg {{ background: var(--card); padding: 12px; border-radius: 10px; }}</style>"
    return f"{opening}>{style}{closing}\n"


if __name__ == "__main__":
    sys.exit(main())
