"""``minikafka`` as a command of click, made once for a process: to make all verbs takes a tenth of a second."""

from __future__ import annotations

from typing import Any, Final

from typer.main import get_command

from minikafka.cli.main import app

COMMAND: Final[Any] = get_command(app)
