"""The report as one HTML file with style and plots; it loads nothing, and has no script. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from html import escape
from typing import Final

from minikafka.plots import Format, Mark, bars, columns, lines, short, short_bytes
from minikafka.plots.page import card, page, table, tile
from minikafka.spark.pipelines.report.measures import Measures, TopicReport

SKEWED: Final = 1.5
_DAY_MS: Final = 86_400_000
_FIRST_MS: Final = -62_135_596_800_000  # the year 1
_LAST_MS: Final = 253_402_300_799_999  # the end of the year 9999
_COLUMNS: Final = (
    *("partition", "records", "share", "bytes", "median", "99 %", "keys", "no key", "tombstones"),
    *("offsets", "gaps", "earliest (UTC)", "latest (UTC)"),
)


def to_html(report: TopicReport) -> str:
    """The page, to be written in UTF-8."""
    return page(f"{report.topic} · topic report", "".join(_body(report)))


def time_label(ms: int, range_ms: int, step_ms: int = 1) -> str:
    """A time on an axis, as precise as the range needs. UTC."""
    if not _has_date(ms):
        return f"{ms} ms"
    moment = datetime.fromtimestamp(ms // 1000, UTC)
    if range_ms > 3 * 365 * _DAY_MS:
        return f"{moment:%Y-%m}"
    if range_ms > 3 * _DAY_MS:
        return f"{moment:%b %d}"
    if range_ms > _DAY_MS:
        return f"{moment:%d %H:%M}"
    if range_ms > 6 * 3_600_000 or step_ms % 60_000 == 0:
        return f"{moment:%H:%M}"
    return f"{moment:%H:%M:%S}" if range_ms >= 10_000 else f"{moment:%S}.{ms % 1000:03}"


def full_time(ms: int) -> str:
    """``2026-01-31 12:00:00``; with milliseconds if there are any. UTC."""
    if not _has_date(ms):
        return f"{ms} ms"
    moment = f"{datetime.fromtimestamp(ms // 1000, UTC):%Y-%m-%d %H:%M:%S}"
    return f"{moment}.{ms % 1000:03}" if ms % 1000 else moment


def _has_date(ms: int) -> bool:
    """A producer may send any time, and one of the year 30,000 is in Spark's calendar."""
    return _FIRST_MS <= ms <= _LAST_MS


def time_range(measures: Measures) -> str:
    """From the earliest to the latest timestamp."""
    if not measures.records:
        return "–"
    return f"{full_time(measures.first_ms)} – {full_time(measures.last_ms)}"


def _body(report: TopicReport) -> Iterator[str]:
    yield f"<h1>{escape(report.topic)}</h1><p>{_when(report)}</p>"
    yield f'<div class="tiles">{"".join(_tiles(report))}</div>'
    if report.total.records:
        yield f'<div class="plots">{"".join(_plots(report))}</div>'
    yield _table(report)
    yield (
        f"<footer>Made {full_time(report.made_ms)} UTC from cluster {escape(report.cluster_id)}. Bytes are those of "
        "keys, values and headers before compression. Distinct keys, percentiles and frequent keys are estimates of "
        "sketches (about 2 %, 1 % and 0.35 % of the records off).</footer>"
    )


def _when(report: TopicReport) -> str:
    if not report.total.records:
        return "The topic has no records."
    return f"Timestamps from {time_range(report.total)} UTC"


def _tiles(report: TopicReport) -> Iterator[str]:
    total = report.total
    yield tile("records", f"{total.records:,}", f"{short(report.records_per_second)}/s on average")
    yield tile("bytes", short_bytes(total.total_bytes), f"{short_bytes(total.mean_size)} per record")
    yield tile("distinct keys", f"≈ {total.keys:,}", f"{total.keyless:,} records have no key")
    warning = "warn" if report.skew >= SKEWED else ""
    yield tile("partitions", f"{len(report.partitions):,}", f"the fullest has {report.skew:.2f}× the mean", warning)
    yield tile("tombstones", f"{total.tombstones:,}", _share(total.tombstones, total.records))
    names = ", ".join(dict.fromkeys(name for each in report.header_names for name in each.what.split(", ")))
    yield tile("of headers", short_bytes(total.header_bytes), escape(names) if names else "there are none")


def _plots(report: TopicReport) -> Iterator[str]:
    yield from _plots_over_time(report)
    yield _plot_of_partitions(report)
    if report.sizes:
        marks = [
            _mark(
                report,
                each.records,
                short_bytes(each.low),
                f"{short_bytes(each.low)} to below {short_bytes(each.high)}",
            )
            for each in report.sizes
        ]
        median, most, nearly_all = map(short_bytes, report.total.size_quantiles)
        largest = short_bytes(report.total.size_max)
        words = f"median {median}, 90 % up to {most}, 99 % up to {nearly_all}, the largest {largest}"
        yield card("Sizes of records", words, columns(marks, about="Records by size"))
    for title, about, found, words in (
        (
            "Frequent keys",
            "Records of the most frequent keys",
            report.hot_keys,
            f"those in at least 0.35 % of the records: {len(report.hot_keys)} are known",
        ),
        (
            "Headers",
            "Records by the names of their headers",
            report.header_names,
            f"{short_bytes(report.total.header_bytes)} in all",
        ),
    ):
        if found:
            marks = [_mark(report, each.records, each.what, each.what) for each in found]
            yield card(title, words, bars(marks, about=about))


def _mark(report: TopicReport, records: int, label: str, title: str) -> Mark:
    return Mark(records, label, f"{title}\n≈ {records:,} records, {_share(records, report.total.records)}")


def _plots_over_time(report: TopicReport) -> Iterator[str]:
    slots, over_time = report.slots, report.over_time
    step_s, range_ms = slots.step_ms / 1000, slots.count * slots.step_ms
    begins_ms = [slots.begin_ms(slot) for slot in range(slots.count)]
    labels = [time_label(begin_ms, range_ms, slots.step_ms) for begin_ms in begins_ms]
    outside = report.earlier + report.later
    words = f"in slots of {_length(slots.step_ms)}" + (f"; {outside:,} records lie outside" if outside else "")

    def drawn(
        title: str, form: Format, tip: Callable[[Measures], str], **values: Callable[[Measures], float | None]
    ) -> str:
        series = {
            name: [
                Mark(value(each), label, f"{full_time(begin_ms)}, {_length(slots.step_ms)}\n{tip(each)}")
                for begin_ms, label, each in zip(begins_ms, labels, over_time, strict=True)
            ]
            for name, value in values.items()
        }
        return card(title, words, lines(series, about=title, form=form))

    def rate(each: Measures) -> str:
        return f"{each.records:,} records, {short(each.records / step_s)}/s"

    def sizes(each: Measures) -> str:
        return f"median {short_bytes(each.size_quantiles[0])}, 99 % below {short_bytes(each.size_quantiles[2])}"

    def quantile(at: int) -> Callable[[Measures], float | None]:
        return lambda each: each.size_quantiles[at] if each.records else None

    def bytes_per_second(each: Measures) -> float:
        return each.total_bytes / step_s

    yield drawn("Records per second", short, rate, records=lambda each: each.records / step_s)
    yield drawn(
        "Bytes per second", short_bytes, lambda each: f"{short_bytes(bytes_per_second(each))}/s", bytes=bytes_per_second
    )
    yield drawn(
        "Distinct keys per slot", short, lambda each: f"≈ {each.keys:,} distinct keys", keys=lambda each: each.keys
    )
    yield drawn("Sizes over time", short_bytes, sizes, **{"median": quantile(0), "99 %": quantile(2)})


def _plot_of_partitions(report: TopicReport) -> str:
    counts = [each.measures.records for each in report.partitions]
    mean, empty = sum(counts) / len(counts), counts.count(0)
    marks = [
        Mark(
            each.measures.records,
            str(each.partition),
            f"partition {each.partition}\n{each.measures.records:,} records, "
            f"{each.measures.records / mean:.2f}× the mean\n"
            f"{short_bytes(each.measures.total_bytes)}, ≈ {each.measures.keys:,} keys",
        )
        for each in report.partitions
    ]
    words = f"the fullest has {report.skew:.2f}× the mean" + (f"; {empty} empty" if empty else "")
    drawn = columns(marks, about="Records per partition", mean=mean if len(counts) > 1 else None)
    return card("Records per partition", words if len(counts) > 1 else "there is one", drawn)


def _table(report: TopicReport) -> str:
    rows = []
    for each in report.partitions:
        measures = each.measures
        cells = (
            str(each.partition),
            f"{measures.records:,}",
            _share(measures.records, report.total.records),
            short_bytes(measures.total_bytes),
            short_bytes(measures.size_quantiles[0]),
            short_bytes(measures.size_quantiles[-1]),
            f"≈ {measures.keys:,}",
            f"{measures.keyless:,}",
            f"{measures.tombstones:,}",
            f"{each.first_offset:,} – {each.end_offset:,}",
            f"{each.gaps:,}",
            *((full_time(ms)[:19] if measures.records else "–") for ms in (measures.first_ms, measures.last_ms)),
        )
        rows.append(cells)
    return f'<div class="card wide"><h2>Partitions</h2>{table(_COLUMNS, rows)}</div>'


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.1%}" if whole else "–"


def _length(ms: int) -> str:
    for size, unit in ((_DAY_MS, "d"), (3_600_000, "h"), (60_000, "min"), (1000, "s")):
        if ms % size == 0:
            return f"{ms // size} {unit}"
    return f"{ms} ms"
