"""How judgements of histories are printed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from minikafka.cli.output import print_line, print_table

if TYPE_CHECKING:
    from minikafka.ledger.checker import Verdict
    from minikafka.ledger.judging import HistoryVerdict
    from minikafka.ledger.transaction_checker import TransactionVerdict

_SHOWN_MAX: Final = 10  # examples of a rule


def print_history_verdict(verdict: HistoryVerdict) -> None:
    """Every rule with what was found, examples of what is wrong, what was not judged, and the verdict."""
    print_line(f"{verdict.events:,} events")
    for name, judgement in verdict.judgements.items():
        print_table((f"anomalies of {name}", "found#", "meaning"), _rows(verdict, judgement))
        print_line("")
    for judgement in verdict.judgements.values():
        print_examples(judgement.violations, judgement.examples)
    for sentence in verdict.not_judged:
        print_line(f"not judged: {sentence}")
    for judgement in verdict.judgements.values():
        print_line(judgement.sentence)


def print_examples(violations: Mapping[str, int], examples: Mapping[str, Sequence[str]]) -> None:
    """The broken rules, each with its count and some sentences."""
    for rule, sentences in examples.items():
        print_line(f"{rule} ({violations[rule]:,}):")
        for sentence in sentences[:_SHOWN_MAX]:
            print_line(f"  {sentence}")


def _rows(verdict: HistoryVerdict, judgement: Verdict | TransactionVerdict) -> list[tuple[str, str, str]]:
    from minikafka.ledger.judging import meaning

    return [
        (rule, _found(count, is_judged=rule not in verdict.rules_not_judged), meaning(rule, judgement))
        for rule, count in judgement.violations.items()
    ]


def _found(count: int, *, is_judged: bool) -> str:
    if count:
        return f"[bold red]{count:,}[/]"
    return "[green]0[/]" if is_judged else "[yellow]–[/]"
