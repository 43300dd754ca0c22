"""``minikafka demo transactions``: a bank that stays exact while all is killed, and a commit that arrives late."""

from __future__ import annotations

import random
import shutil
import tempfile
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli.extras import need
from minikafka.cli.options import DAY_S, AsJson
from minikafka.cli.output import escaped, print_json, print_note, teller

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

    from minikafka.chaos.bank import Bank, BankOutcome, Reader
    from minikafka.chaos.late_end import LateEnd

VERSIONS: Final = (1, 2)


def transactions(
    seconds: Annotated[float, typer.Option(help="How long the bank is broken and mended.", min=1, max=DAY_S)] = 20,
    transaction_version: Annotated[
        int,
        typer.Option(
            "--transaction-version",
            min=VERSIONS[0],
            max=VERSIONS[1],
            help="Of the commit that arrives late; 1: without the bank.",
        ),
    ] = VERSIONS[1],
    seed: Annotated[int | None, typer.Option(help="Of the faults.", show_default="a random one")] = None,
    keep: Annotated[bool, typer.Option("--keep", help="Keep the brokers' files afterwards.")] = False,
    as_json: AsJson = False,
) -> None:
    """Book transfers between accounts in transactions, kill the application and the brokers, and add up the accounts.

    One reader sees what is committed: its sum never changes, and no transfer is booked twice. Another one sees
    everything.

    Then a commit arrives late: version 2 of the protocol of transactions refuses it. With --transaction-version 1 it
    ends another transaction, and money is lost.

    Exits with 0 only if all of that was seen.
    """

    if transaction_version < VERSIONS[1]:
        need("confluent-kafka", of="the demo", extra="demo")
    console = teller(on_stderr=as_json)
    say = step_printer(console)
    bank = _show_bank(console, say, seconds, seed, keep=keep) if transaction_version == VERSIONS[1] else None
    late = _show_late_end(say, transaction_version, keep=keep)
    if as_json:
        print_json({"bank": None if bank is None else as_dict(bank), "late_end": _late_as_dict(late)})
    else:
        if bank is not None:
            console.print(f"[bold]{sentence_of_bank(bank)}[/]")
        console.print(f"[bold]{sentence_of_late_end(late)}[/]")
    raise typer.Exit(0 if late.as_expected and (bank is None or bank.is_exact) else 1)


def _show_bank(console: Console, say: Any, seconds: float, seed: int | None, *, keep: bool) -> BankOutcome:
    from minikafka.chaos.bank import Bank

    chosen = random.randrange(1 << 16) if seed is None else seed
    outcome: BankOutcome | None = None
    bank = Bank(say, chosen)
    try:
        with bank:
            say(f"a bank with 8 accounts, seed {chosen}")
            with _live(console, bank):
                outcome = bank.run(seconds)
        console.print(_table(bank), soft_wrap=False)
        return outcome
    finally:
        if keep or outcome is None or not outcome.is_exact:
            print_note(f"the brokers' logs and data are in {bank.directory}")
        else:
            bank.remove_files()


def _show_late_end(say: Any, version: int, *, keep: bool) -> LateEnd:
    from minikafka.chaos.late_end import show_late_end

    directory = Path(tempfile.mkdtemp(prefix="minikafka-late-end-"))
    result: LateEnd | None = None
    try:
        result = show_late_end(directory / "cluster", version, say)
        return result
    finally:
        if keep or result is None or not result.as_expected:
            print_note(f"the broker's log and data are in {directory}")
        else:
            shutil.rmtree(directory, ignore_errors=True)


def _live(console: Console, bank: Bank) -> AbstractContextManager[object]:
    """The table, while it changes; on a terminal only."""
    from rich.live import Live

    if not console.is_terminal:
        return nullcontext()
    return Live(get_renderable=lambda: _table(bank), console=console, refresh_per_second=4, transient=True)


def _table(bank: Bank) -> Table:
    from rich.box import SIMPLE_HEAD
    from rich.table import Table

    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column("")
    for name in ("transfers\nsent", "seen", "booked\ntwice", "half\nbooked", "sum of all\naccounts", "sum was\nwrong"):
        table.add_column(name, justify="right")
    for reader in (bank.committed, bank.uncommitted):
        table.add_row(*_cells(bank, reader))
    return table


def _cells(bank: Bank, reader: Reader) -> tuple[str, ...]:
    return (
        reader.isolation.name.lower(),
        f"{bank.sent:,}",
        f"{reader.transfers:,}",
        _bad(reader.doubled),
        _bad(reader.halves),
        _bad(reader.total),
        f"{_bad(reader.wrong_looks)} of {reader.looks:,}",
    )


def _bad(count: int) -> str:
    return f"[bold red]{count:,}[/]" if count else "[bold green]0[/]"


def sentence_of_bank(outcome: BankOutcome) -> str:
    """The verdict."""
    kills = ", ".join(f"{name} {count}" for name, count in outcome.kills.items())
    committed, uncommitted = outcome.committed, outcome.uncommitted
    if outcome.is_exact:
        verdict = (
            f"exact: {outcome.sent:,} transfers, each booked once; the sum was right in all {committed.looks:,} looks"
        )
    else:
        verdict = (
            f"NOT exact: of {outcome.sent:,} transfers lost {outcome.lost:,}, booked twice {committed.doubled:,},"
            f" half booked {committed.halves:,}; the sum was wrong in {committed.wrong_looks:,} looks"
        )
    return (
        f"{verdict} (killed: {kills or 'nothing'}). Without read_committed: {uncommitted.doubled:,} booked twice, a"
        f" wrong sum in {uncommitted.wrong_looks:,} of {uncommitted.looks:,} looks. ({outcome.seconds:.0f} s)"
    )


def sentence_of_late_end(late: LateEnd) -> str:
    """What came of the late commit."""
    if late.is_harmless:
        return f"version {late.version}: the late commit was refused ({late.answer.name}), and no money is lost"
    lost = late.total_before - late.total_after
    return (
        f"version {late.version}: the late commit ended another transaction, and {lost} of {late.total_before} are"
        " lost; version 2 refuses it: minikafka demo transactions"
    )


def as_dict(outcome: BankOutcome) -> dict[str, Any]:
    """The outcome as a script wants it."""
    return {
        "ok": outcome.is_exact,
        "sent": outcome.sent,
        "lost": outcome.lost,
        "killed": outcome.kills,
        "seconds": round(outcome.seconds, 1),
        **{
            reader.isolation.name.lower(): {
                "transfers": reader.transfers,
                "booked_twice": reader.doubled,
                "half_booked": reader.halves,
                "looks": reader.looks,
                "wrong_sums": reader.wrong_looks,
                "largest_error": reader.largest_error,
            }
            for reader in (outcome.committed, outcome.uncommitted)
        },
    }


def _late_as_dict(late: LateEnd) -> dict[str, Any]:
    return asdict(late) | {"ok": late.as_expected, "answer": late.answer.name, "abort": late.abort.name}


def step_printer(console: Console) -> Any:
    """Prints each step with the seconds since now."""
    began = time.monotonic()
    return lambda text: console.print(f"[dim]{time.monotonic() - began:5.1f} s[/]  {escaped(text)}")
