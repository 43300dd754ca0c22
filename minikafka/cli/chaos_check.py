"""``minikafka chaos check``: was anything lost, doubled, reordered or invented, by what clients wrote down?"""

from __future__ import annotations

import gc
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.judgements import print_history_verdict
from minikafka.cli.options import AsJson
from minikafka.cli.output import fail, print_json, print_line

if TYPE_CHECKING:
    from minikafka.ledger.judging import HistoryVerdict
    from minikafka.ledger.reading import HistoryReader


def check(
    histories: Annotated[
        list[Path], typer.Argument(metavar="HISTORY...", help="Files of events, JSON lines.", show_default=False)
    ],
    as_json: AsJson = False,
) -> None:
    """Judge a history by the anomalies of Jepsen's Kafka workload: lost-write, unseen, duplicate, poll-skip, ...

    Exit code 0 only if no anomaly was found, and a consumer that read to the end looked for every acknowledged record.
    What could not be judged is named.

    `minikafka demo --history FILE` and `minikafka produce --history FILE` write histories; a test of your own does with
    minikafka.chaos.history.History. Several files, say one of each process, are one history without an order between
    them. docs/internals/chaos.md has the events and the rules.

    Examples:

    [bold]minikafka demo --history demo.jsonl; minikafka chaos check demo.jsonl[/]

    [bold]minikafka chaos check producer.jsonl consumer.jsonl --json | jq .records.violations[/]
    """
    from minikafka.cli.run import quiet_when_the_reader_leaves

    with quiet_when_the_reader_leaves(), ExitStack() as opened:
        reader, verdict = _judge(histories, opened)
        if as_json:
            print_json({**verdict.as_dict(), "unfinished": reader.unfinished})
        else:
            print_history_verdict(verdict)
            for name in reader.unfinished:
                print_line(f"{name}: the last line is not finished, and was left out")
    raise typer.Exit(0 if verdict.ok else 1)


def _judge(histories: list[Path], opened: ExitStack) -> tuple[HistoryReader, HistoryVerdict]:
    """A damaged history ends the program with a line."""
    from minikafka.ledger.events import HistoryError
    from minikafka.ledger.judging import judge
    from minikafka.ledger.reading import HistoryReader

    reader = HistoryReader([(str(path), opened.enter_context(path.open("rb"))) for path in histories])
    gc.disable()  # millions of objects without a cycle: looking through them again and again takes a third of the time
    try:
        return reader, judge(list(reader), has_order=len(histories) == 1)
    except HistoryError as error:
        fail(f"{reader.place(error.number)}: {error.words}")
    finally:
        gc.enable()
