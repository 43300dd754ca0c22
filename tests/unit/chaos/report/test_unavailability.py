"""Windows without an acknowledged write, against a look at every pair of writes."""

from __future__ import annotations

from dataclasses import replace

from chaos_runs import chaos_run

from minikafka.chaos.report import ChaosRun, Fault
from minikafka.chaos.report.unavailability import LEAST_MS, by_partition, quantile, windows
from minikafka.ledger.events import Event
from minikafka.ledger.judging import judge


def run_with(writes_ms: dict[str, list[int]], *faults: Fault) -> ChaosRun:
    """A run whose load ran from 1 to 11 s."""
    events: list[Event] = []
    for partition, times in writes_ms.items():
        for offset, t_ms in enumerate(times):
            record = f"{partition}/{offset}"
            events.append(Event(len(events), t_ms, "p", "invoke", "send", [[partition, record]]))
            events.append(Event(len(events), t_ms, "p", "ok", "send", [[partition, record, offset]]))
    run = chaos_run(partitions=1, seconds=1, faults=0)
    return replace(run, verdict=judge(events), faults=faults, samples=(), load_begin_ms=1000, load_end_ms=11_000)


def test_a_window_is_between_writes_and_at_both_ends_of_the_load() -> None:
    busy = [*range(1000, 3001, 100), *range(5000, 9001, 100)]
    found = windows(run_with({"t-0": [500, *busy, 12_000]}))
    assert [(window.begin_ms, window.end_ms) for window in found] == [(3000, 5000), (9000, 11_000)]


def test_a_partition_without_any_write_has_one_window() -> None:
    run = run_with({"t-0": list(range(1000, 11_001, LEAST_MS - 1)), "t-1": [20_000]})
    assert [(each.partition, each.length_ms) for each in windows(run)] == [("t-1", 10_000)]


def test_the_faults_in_force_are_named() -> None:
    faults = (
        Fault("kill", "before", 100, 2999),
        Fault("kill", "into it", 2500, 3000),
        Fault("kill", "within", 3500, 3600),
        Fault("pause", "never mended", 4900, None),
        Fault("kill", "after", 5001, 6000),
    )
    run = run_with({"t-0": [*range(1000, 3001, 100), *range(5000, 11_001, 100)]}, *faults)
    (window,) = windows(run)
    assert [fault.sentence for fault in window.faults] == ["into it", "within", "never mended"]


def test_lengths_by_partition_in_natural_order() -> None:
    run = run_with({f"t-{n}": [*range(1000, 2001, 200), *range(2000 + n * 500, 11_001, 200)] for n in (10, 2)})
    found = by_partition(run, windows(run))
    assert [(each.partition, each.windows, each.max_ms) for each in found] == [("t-2", 1, 1000), ("t-10", 1, 5000)]
    assert found[0].p50_ms == found[0].p99_ms == found[0].total_ms == 1000


def test_quantiles_are_values_of_the_list() -> None:
    lengths = list(range(1, 101))
    assert (quantile(lengths, 0.5), quantile(lengths, 0.99), quantile([7], 0.99), quantile([], 0.5)) == (50, 99, 7, 0)
