"""``minikafka user``: who may log in with SCRAM."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli.command_config import given_command_config
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import escaped, print_json, print_line, print_table
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.chaos.logins import Logins
    from minikafka.client import Admin

COLUMNS: Final = ("user", "mechanism", "iterations#")
MECHANISMS: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")

app = typer.Typer(
    no_args_is_help=True,
    help="Users of SCRAM, whose credentials are metadata of the cluster. They may log in at listeners that speak "
    "SASL_SSL or SASL_PLAINTEXT.",
)

Name = Annotated[str, typer.Argument(metavar="USER", show_default=False)]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option("--mechanism", metavar="NAME", help="SCRAM-SHA-256 or SCRAM-SHA-512; may be repeated."),
]


@app.command()
def add(
    user: Name,
    mechanism: Mechanisms = None,
    iterations: Annotated[int, typer.Option("--iterations", help="Of the password's hash, 4096 to 16384.")] = 8192,
    password_file: Annotated[
        Path | None,
        typer.Option("--password-file", help="A file with the password.", exists=True, dir_okay=False, readable=True),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Add a user, or change a password. The password is asked for; without a terminal it is the first line of stdin.
    A new user may log in with SCRAM-SHA-512, a new password is for all mechanisms of the user, unless some are named.

    Example:

    [bold]minikafka user add alice[/]
    """
    named = _chosen(mechanism, ())
    cluster = target(bootstrap, directory)
    password = _password(user, password_file)

    async def verb(admin: Admin) -> None:
        from minikafka.client.admin import ScramUpsertion

        had = tuple((await admin.describe_user_scram_credentials()).get(user, ()))
        chosen = named or had or MECHANISMS[1:]
        for name in chosen:
            await admin.alter_user_scram_credentials([ScramUpsertion(user, password, name, iterations)])
            print_line(f"user {user} may log in with {name}")
        for name in had:
            if name not in chosen:
                print_line(f"user {user} may log in with {name} and the password of before")
        if cluster.logins is not None:
            _write_files(cluster.logins, user, password, chosen)
        _note_file_of_before(user, password, chosen)

    run_with_admin(verb, cluster, timeout)


@app.command("list")
def list_(
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show all users and their mechanisms."""

    async def verb(admin: Admin) -> None:
        users = await admin.describe_user_scram_credentials()
        if as_json:
            print_json([{"user": user, "mechanisms": mechanisms} for user, mechanisms in sorted(users.items())])
        elif not users:
            print_line("there are no users; add one with minikafka user add NAME")
        else:
            rows = [(user, *each) for user, mechanisms in sorted(users.items()) for each in mechanisms.items()]
            print_table(COLUMNS, [(escaped(user), name, str(iterations)) for user, name, iterations in rows])

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
def remove(
    user: Name,
    mechanism: Mechanisms = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Remove a user, or only some of its mechanisms. Connections that are open stay open."""
    cluster = target(bootstrap, directory)
    named = _chosen(mechanism, ())
    if cluster.logins is not None:
        _check_not_admin(user, named)

    async def verb(admin: Admin) -> None:
        from minikafka.client.admin import ScramDeletion
        from minikafka.errors import ErrorCode, KafkaError

        known = (await admin.describe_user_scram_credentials()).get(user)
        if known is None:
            raise KafkaError(ErrorCode.RESOURCE_NOT_FOUND, f"user {user!r} not found; see minikafka user list")
        for name in named or tuple(known):
            await admin.alter_user_scram_credentials([ScramDeletion(user, name)])
            print_line(f"user {user} may not log in with {name} any more")

    run_with_admin(verb, cluster, timeout)


def _chosen(mechanisms: list[str] | None, default: tuple[str, ...]) -> tuple[str, ...]:
    for name in mechanisms or ():
        if name not in MECHANISMS:
            raise typer.BadParameter(f"{name!r} is not one of {', '.join(MECHANISMS)}", param_hint="--mechanism")
    return tuple(dict.fromkeys(mechanisms or default))


def _check_not_admin(user: str, mechanisms: tuple[str, ...]) -> None:
    """Raise BadParameter for who is needed to add users again."""
    from minikafka.chaos.logins import ADMIN, MECHANISM

    if user == ADMIN and (not mechanisms or MECHANISM in mechanisms):
        raise typer.BadParameter(f"{ADMIN} is whom the verbs log in as here; add it again for a new password")


def _write_files(logins: Logins, user: str, password: str, mechanisms: tuple[str, ...]) -> None:
    """What verbs log in with from now on, if the user is one whose files are there."""
    from minikafka.chaos.logins import MECHANISM, USERS

    if user in USERS and MECHANISM in mechanisms:
        logins.change(user, password)
        print_line(f"its new password is in {logins.password_file(user)}")


def _note_file_of_before(user: str, password: str, mechanisms: tuple[str, ...]) -> None:
    """Whoever changes his own password logs in with the old one next, and is refused until the file has the new one."""
    from minikafka.client.properties import security_of_file

    path = given_command_config()
    if path is None:
        return
    security = security_of_file(path)
    login = security.login
    if (
        login is not None
        and login.user == user
        and login.password != password
        and security.sasl_mechanism in mechanisms
    ):
        print_line(f"{path} has the password of before: write the new one there, or verbs with it are refused")


def _password(user: str, path: Path | None) -> str:
    if path is not None:
        password = path.read_text(errors="surrogateescape").rstrip("\n")
    elif sys.stdin.isatty():
        password = typer.prompt(f"password of {user}", hide_input=True, confirmation_prompt=True)
    else:
        password = sys.stdin.readline().rstrip("\n")
    where = "--password-file" if path else "stdin"
    if not password:
        raise typer.BadParameter("the password is empty", param_hint=where)
    try:
        password.encode()
    except UnicodeEncodeError:  # what could not be read is half a character each
        raise typer.BadParameter("the password is not in UTF-8", param_hint=where) from None
    return password
