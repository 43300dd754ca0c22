"""Packages that only some verbs need: a line instead of a traceback where one is not installed."""

from __future__ import annotations

from importlib.util import find_spec

from minikafka.cli.output import fail


def need(package: str, *, of: str, extra: str) -> None:
    """End with a line where a package is not installed. ``of``: what needs it; ``extra``: the extra that has it."""
    if find_spec(package.replace("-", "_")) is None:
        fail(f"{of} needs {package}, which is not installed: pip install 'minikafka[{extra}]'")
