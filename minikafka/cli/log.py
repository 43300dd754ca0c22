from __future__ import annotations

import typer

app = typer.Typer(no_args_is_help=True, help="Look into files on disk.")


@app.command()
def dump(name: str) -> None:
    """x"""


@app.command()
def list() -> None:
    """x"""
