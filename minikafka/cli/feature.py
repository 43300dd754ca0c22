"""``minikafka cluster feature``: levels of protocols for a whole cluster, as ``kafka-features.sh`` has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Target, Timeout, target
from minikafka.cli.output import print_json, print_line, print_table
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.admin import FeatureChange

COLUMNS: Final = ("feature", "level in force#", "lowest#", "highest#")
LEVEL_MAX: Final = (1 << 15) - 1

app = typer.Typer(no_args_is_help=True, help="Features: levels of protocols that hold for the whole cluster.")

Levels = Annotated[
    list[str],
    typer.Option("--feature", metavar="NAME=LEVEL", help="A feature and its new level; may be repeated."),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask whether it would be done, and do nothing.")]


@app.command()
def describe(
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show the features: the level in force, and the levels that the brokers know."""

    async def verb(admin: Admin) -> None:
        features = await admin.describe_features()
        if as_json:
            print_json([{"feature": name} | feature._asdict() for name, feature in features.items()])
        else:
            rows = ((name, str(each.level), str(each.lowest), str(each.highest)) for name, each in features.items())
            print_table(COLUMNS, rows)

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
def upgrade(
    levels: Levels,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Raise the levels of features.

    Example:

    [bold]minikafka cluster feature upgrade --feature transaction.version=2[/]
    """
    from minikafka.client.admin import FeatureChange

    _update(_parse(levels), FeatureChange.UPGRADE, dry_run, target(bootstrap, directory), timeout)


@app.command()
def downgrade(
    levels: Levels,
    unsafe: Annotated[bool, typer.Option("--unsafe", help="Even if metadata may be lost by that.")] = False,
    dry_run: DryRun = False,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Lower the levels of features. Level 0 is what was before there was the feature.

    Before group.version=0, stop consumers with group.protocol=consumer: they fail, and others of their groups read
    nothing until the sessions of those have ended.

    Example, so that clients speak the first version of transactions:

    [bold]minikafka cluster feature downgrade --feature transaction.version=1[/]
    """
    from minikafka.client.admin import FeatureChange

    change = FeatureChange.UNSAFE_DOWNGRADE if unsafe else FeatureChange.SAFE_DOWNGRADE
    _update(_parse(levels), change, dry_run, target(bootstrap, directory), timeout)


def _update(levels: dict[str, int], change: FeatureChange, dry_run: bool, cluster: Target, timeout: float) -> None:
    async def verb(admin: Admin) -> None:
        await admin.update_features(levels, change=change, validate_only=dry_run)
        for name, level in levels.items():
            print_line(f"{name} {'can be set to' if dry_run else 'is now at'} level {level}")

    run_with_admin(verb, cluster, timeout)


def _parse(texts: list[str]) -> dict[str, int]:
    levels: dict[str, int] = {}
    for text in texts:
        name, separator, level = (part.strip() for part in text.partition("="))
        if not (separator and name and level.isascii() and level.isdecimal() and int(level) <= LEVEL_MAX):
            raise typer.BadParameter(
                f"{text!r} is not NAME=LEVEL, for example transaction.version=2", param_hint="--feature"
            )
        if name in levels:
            raise typer.BadParameter(f"{name} is named twice", param_hint="--feature")
        levels[name] = int(level)
    return levels
