"""``minikafka quota``: bounds on what clients may ask of each broker."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Final, NoReturn

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Target, Timeout, target
from minikafka.cli.output import escaped, print_json, print_line, print_table
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.admin import QuotaEntity

COLUMNS: Final = ("for", "quota", "value#")

app = typer.Typer(
    no_args_is_help=True,
    help="Quotas of clients. Each broker counts producer_byte_rate and consumer_byte_rate (bytes/s) and "
    "request_percentage (of its time); the controller counts controller_mutation_rate (partitions/s).",
)

ClientId = Annotated[str | None, typer.Option("--client-id", metavar="NAME", help="For clients of this client.id.")]
AnyClientId = Annotated[
    bool, typer.Option("--client-id-default", help="For each client.id without a quota of its own.")
]
User = Annotated[
    str | None, typer.Option("--user", metavar="NAME", help="For a user; ANONYMOUS is who did not log in.")
]
AnyUser = Annotated[bool, typer.Option("--user-default", help="For each user without a quota of their own.")]


@app.command("list")
def list_(
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show all quotas."""

    async def verb(admin: Admin) -> None:
        quotas = await admin.describe_quotas()
        if as_json:
            print_json([entity._asdict() | {"quotas": values} for entity, values in quotas.items()])
        elif not quotas:
            print_line("no client has a quota")
        else:
            rows = [(str(entity), *each) for entity, values in quotas.items() for each in values.items()]
            print_table(COLUMNS, [(escaped(whom), key, shown(value)) for whom, key, value in rows])

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command("set")
def set_(
    quotas: Annotated[
        list[str], typer.Argument(metavar="QUOTA=VALUE...", help="For example producer_byte_rate=1000000.")
    ],
    client_id: ClientId = None,
    client_id_default: AnyClientId = False,
    user: User = None,
    user_default: AnyUser = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Bound what some clients may ask of each broker.

    Example:

    [bold]minikafka quota set --client-id loader producer_byte_rate=1000000[/]
    """
    entity = _entity(client_id, client_id_default, user, user_default)
    _alter(entity, _parse(quotas), target(bootstrap, directory), timeout)


@app.command()
def remove(
    quotas: Annotated[list[str], typer.Argument(metavar="QUOTA...", help="For example producer_byte_rate.")],
    client_id: ClientId = None,
    client_id_default: AnyClientId = False,
    user: User = None,
    user_default: AnyUser = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Remove bounds."""
    entity = _entity(client_id, client_id_default, user, user_default)
    _alter(entity, dict.fromkeys(quotas), target(bootstrap, directory), timeout)


def _alter(entity: QuotaEntity, changes: dict[str, float | None], cluster: Target, timeout: float) -> None:
    async def verb(admin: Admin) -> None:
        await admin.alter_quotas(entity, changes)
        for key, value in changes.items():
            print_line(f"{entity}: {key} {'is removed' if value is None else f'is now {shown(value)}'}")

    run_with_admin(verb, cluster, timeout)


def _entity(client_id: str | None, client_id_default: bool, user: str | None, user_default: bool) -> QuotaEntity:
    from minikafka.client.admin import QuotaEntity

    for name, is_default, option in ((client_id, client_id_default, "--client-id"), (user, user_default, "--user")):
        if name is not None and is_default:
            raise typer.BadParameter(f"give {option} or {option}-default, not both", param_hint=option)
    has_user, has_client_id = user is not None or user_default, client_id is not None or client_id_default
    if not (has_user or has_client_id):
        raise typer.BadParameter("say for whom: --client-id NAME, for example", param_hint="--client-id")
    return QuotaEntity(user, client_id, has_user, has_client_id)


def shown(value: float) -> str:
    """Without the decimals of a whole number."""
    return str(int(value)) if value.is_integer() else str(value)


def _parse(texts: list[str]) -> dict[str, float | None]:
    values: dict[str, float | None] = {}
    for text in texts:
        name, separator, value = (part.strip() for part in text.partition("="))
        if not separator or not name:
            _refuse(text)
        if name in values:
            raise typer.BadParameter(f"{name} is named twice", param_hint="QUOTA=VALUE")
        values |= parse_values({name: value})
    return values


def parse_values(changes: Mapping[str, str | None]) -> dict[str, float | None]:
    """Quotas by name as numbers; None stays."""
    values: dict[str, float | None] = {}
    for name, text in changes.items():
        try:
            values[name] = None if text is None else float(text)
        except ValueError:
            _refuse(f"{name}={text}")
        if values[name] != values[name]:
            _refuse(f"{name}={text}")
    return values


def _refuse(text: str) -> NoReturn:
    raise typer.BadParameter(
        f"{text!r} is not QUOTA=VALUE, for example producer_byte_rate=1000000", param_hint="QUOTA=VALUE"
    )
