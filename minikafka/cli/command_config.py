"""``--command-config FILE`` for every verb that takes ``--bootstrap-server``, as Kafka's own tools call it.

How to connect belongs to which cluster to connect to. So a verb says nothing of it: it gets the option here, and
:func:`~minikafka.cli.options.target` has what was given.
"""

from __future__ import annotations

import functools
import inspect
import os
from collections.abc import Callable
from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any, Final

import typer

OPTION: Final = "--command-config"
VARIABLE: Final = "MINIKAFKA_COMMAND_CONFIG"
PARAMETER: Final = "command_config"
_AFTER: Final = "bootstrap"
"""The parameter of the verbs that talk to a cluster."""
_DIRECTORY: Final = "directory"
"""The parameter of those that find a local one, too."""


def _option(default: str) -> Any:
    return Annotated[
        Path | None,
        typer.Option(
            OPTION,
            metavar="FILE",
            help="client.properties of Kafka: security.protocol, ssl.*, sasl.*.",
            show_default=default,
        ),
    ]


_OF_ANY = _option(f"${VARIABLE}")
_OF_OURS = _option(f"${VARIABLE}, else that of the cluster of --dir, if it is secure")

_given: Final[ContextVar[Path | None]] = ContextVar(PARAMETER, default=None)


def given_command_config(environment: bool = True) -> Path | None:
    """The file that the verb was given, or else the environment names, if that counts."""
    path = _given.get() or (os.environ.get(VARIABLE) if environment else None)
    return Path(path) if path else None


def give_command_config(path: Path | None) -> None:
    """Let the verb that runs have been given this."""
    _given.set(path)


def add_command_config(app: typer.Typer) -> None:
    """Let every verb that talks to a cluster take the option."""
    for command in app.registered_commands:
        assert command.callback is not None
        signature = inspect.signature(command.callback, eval_str=True)
        if _AFTER in signature.parameters and PARAMETER not in signature.parameters:
            command.callback = _taking_it(command.callback, signature)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        add_command_config(group.typer_instance)


def _taking_it(verb: Callable[..., Any], signature: inspect.Signature) -> Callable[..., Any]:
    @functools.wraps(verb)
    def taking_it(**given: Any) -> Any:
        give_command_config(given.pop(PARAMETER))
        return verb(**given)

    annotation = _OF_OURS if _DIRECTORY in signature.parameters else _OF_ANY
    option = inspect.Parameter(PARAMETER, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in signature.parameters.values()]
    parameters.insert(list(signature.parameters).index(_AFTER) + 1, option)
    changed: Any = taking_it
    changed.__signature__ = signature.replace(parameters=parameters)
    changed.__annotations__ = {each.name: each.annotation for each in parameters}
    return taking_it
