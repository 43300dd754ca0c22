"""``minikafka config``: settings of topics, brokers and groups, quotas of clients, and levels of logs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from minikafka.cli import completion, quota
from minikafka.cli.config_resources import (
    BROKER,
    BROKER_LOGGER,
    CLIENT,
    DEFAULT_NAME,
    GROUP,
    HAVE_DEFAULTS,
    OF_BROKERS,
    TOPIC,
    USER,
    EntityOptions,
    Resource,
    parse_added,
    read_words,
)
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Timeout, target
from minikafka.cli.output import print_json, print_line, print_table
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.admin import ConfigEntry, QuotaEntity

COLUMNS: Final = ("setting", "value", "from")
QUOTA_COLUMNS: Final = ("quota", "value#")
SOURCES: Final = {
    1: ("DYNAMIC_TOPIC_CONFIG", "this topic"),
    2: ("DYNAMIC_BROKER_CONFIG", "this broker"),
    3: ("DYNAMIC_DEFAULT_BROKER_CONFIG", "all brokers"),
    4: ("STATIC_BROKER_CONFIG", "file of the broker"),
    5: ("DEFAULT_CONFIG", "default"),
    6: ("DYNAMIC_BROKER_LOGGER_CONFIG", "this broker's log"),
    8: ("DYNAMIC_GROUP_CONFIG", "this group"),
}
"""Where a value comes from, in Kafka's words and in those of a table."""

app = typer.Typer(
    no_args_is_help=True,
    help="Settings of topics, brokers and groups, quotas of clients, levels of logs: get, set, delete.",
)

_WORDS_HELP: Final = "KIND: topic, broker, broker-logger (level of its log), group, client or user."
Words = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND [NAME] [SETTING]...", help=_WORDS_HELP, show_default=False, autocompletion=completion.settings
    ),
]
SetWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND NAME SETTING=VALUE...", help=_WORDS_HELP, show_default=False, autocompletion=completion.settings
    ),
]
DeleteWords = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="KIND NAME SETTING...", help=_WORDS_HELP, show_default=False, autocompletion=completion.settings
    ),
]
Default = Annotated[
    bool,
    typer.Option(
        "--default",
        "--entity-default",
        help="Instead of NAME: all brokers; each client or user without a quota of its own.",
    ),
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Ask whether it would be done, and do nothing.")]
Types = Annotated[list[str] | None, typer.Option("--entity-type", hidden=True)]
Names = Annotated[list[str] | None, typer.Option("--entity-name", hidden=True)]
OfTopic = Annotated[str | None, typer.Option("--topic", hidden=True)]
OfBroker = Annotated[str | None, typer.Option("--broker", hidden=True)]
OfLogger = Annotated[str | None, typer.Option("--broker-logger", hidden=True)]
OfGroup = Annotated[str | None, typer.Option("--group", hidden=True)]
OfClient = Annotated[str | None, typer.Option("--client", "--client-id", hidden=True)]
OfUser = Annotated[str | None, typer.Option("--user", hidden=True)]


@app.command("get")
def get(
    words: Words = None,
    show_all: Annotated[bool, typer.Option("--all", "-a", help="Defaults, too.")] = False,
    default: Default = False,
    types: Types = None,
    names: Names = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_logger: OfLogger = None,
    group: OfGroup = None,
    client: OfClient = None,
    user: OfUser = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show settings, and where each comes from. Without NAME: of every topic, broker, ...

    Examples:

    [bold]minikafka config get topic events[/]

    [bold]minikafka config get topic events retention.ms segment.bytes[/]

    [bold]minikafka config get broker 1 --all[/]

    [bold]minikafka config get clients[/]
    """
    options = _entity_options(types, names, topic, broker, broker_logger, group, client, user, default)
    resource, wanted = read_words(words or [], options)

    async def verb(admin: Admin) -> None:
        if resource.is_quota:
            _print(await _quotas(admin, resource), resource, wanted, show_all=True, as_json=as_json)
        else:
            _print(await _settings(admin, resource), resource, wanted, show_all=show_all, as_json=as_json)

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command("set")
def set_(
    words: SetWords = None,
    default: Default = False,
    dry_run: DryRun = False,
    added: Annotated[list[str] | None, typer.Option("--add-config", hidden=True)] = None,
    deleted: Annotated[list[str] | None, typer.Option("--delete-config", hidden=True)] = None,
    types: Types = None,
    names: Names = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_logger: OfLogger = None,
    group: OfGroup = None,
    client: OfClient = None,
    user: OfUser = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Change settings while the cluster runs. All changes of a command are made, or none.

    Examples:

    [bold]minikafka config set topic events retention.ms=3600000 cleanup.policy=compact,delete[/]

    [bold]minikafka config set broker --default log.retention.ms=3600000[/]

    [bold]minikafka config set client loader producer_byte_rate=1000000[/]

    [bold]minikafka config set broker-logger 1 root=DEBUG[/]
    """
    options = _entity_options(types, names, topic, broker, broker_logger, group, client, user, default)
    resource, assignments = read_words(words or [], options)
    changes: dict[str, str | None] = dict(parse_added(assignments, added or []))
    for name in _listed(deleted or []):
        if name in changes:
            raise typer.BadParameter(f"{name} is also set", param_hint="--delete-config")
        changes[name] = None
    _alter(resource, changes, bootstrap, directory, timeout, dry_run=dry_run)


@app.command("delete")
def delete(
    words: DeleteWords = None,
    default: Default = False,
    dry_run: DryRun = False,
    types: Types = None,
    names: Names = None,
    topic: OfTopic = None,
    broker: OfBroker = None,
    broker_logger: OfLogger = None,
    group: OfGroup = None,
    client: OfClient = None,
    user: OfUser = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Take settings back: what holds then is the next in line, the brokers' setting or Kafka's default.

    Example:

    [bold]minikafka config delete topic events retention.ms[/]
    """
    options = _entity_options(types, names, topic, broker, broker_logger, group, client, user, default)
    resource, settings = read_words(words or [], options)
    _alter(resource, dict.fromkeys(_listed(settings)), bootstrap, directory, timeout, dry_run=dry_run)


def _entity_options(
    types: list[str] | None,
    names: list[str] | None,
    topic: str | None,
    broker: str | None,
    broker_logger: str | None,
    group: str | None,
    client: str | None,
    user: str | None,
    default: bool,
) -> EntityOptions:
    loggers, clients = (BROKER_LOGGER, broker_logger), (CLIENT, client)
    named = ((TOPIC, topic), (BROKER, broker), loggers, (GROUP, group), (USER, user), clients)
    return EntityOptions(types or (), names or (), named, default)


def _listed(words: Sequence[str]) -> list[str]:
    return [name for word in words for name in word.split(",") if name]


def _alter(
    resource: Resource,
    changes: dict[str, str | None],
    bootstrap: str | None,
    directory: Any,
    timeout: float,
    *,
    dry_run: bool,
) -> None:
    if not resource.is_named:
        hint = f"say which {resource.kind}" + ("; --default is for all" if resource.kind in HAVE_DEFAULTS else "")
        raise typer.BadParameter(hint, param_hint="NAME")
    if not changes:
        raise typer.BadParameter("nothing to change; name settings", param_hint="SETTING")

    async def verb(admin: Admin) -> None:
        if resource.is_quota:
            entity, values = _quota_entity(resource), quota.parse_values(changes)
            await admin.alter_quotas(entity, values, validate_only=dry_run)
        else:
            await _check_deleted(admin, resource, [setting for setting, value in changes.items() if value is None])
            kind, name = _resource_type(resource), resource.name or ""
            await admin.alter_resource(kind, name, changes, what=str(resource), validate_only=dry_run)
        for setting, value in changes.items():
            would = "would be" if dry_run else "is"
            print_line(f"{resource}: {setting} {would} {'deleted' if value is None else f'now {value}'}")
        if dry_run:
            print_line("dry run: nothing is changed")

    run_with_admin(verb, target(bootstrap, directory), timeout)


async def _check_deleted(admin: Admin, resource: Resource, names: Sequence[str]) -> None:
    """Refuse what is no setting, as ``kafka-configs.sh`` does: brokers would take it, and delete nothing."""
    if not names:
        return
    name = resource.name or ""
    if resource.kind == BROKER:  # any that lives: all have the same settings
        name = str(min((await admin.describe_cluster()).brokers))
    _find(str(resource), await admin.describe_resource(_resource_type(resource), name), names)


def _resource_type(resource: Resource) -> int:
    from minikafka.client.admin import configs

    numbers = {TOPIC: configs.TOPIC_RESOURCE, BROKER: configs.BROKER_RESOURCE, GROUP: configs.GROUP_RESOURCE}
    return {**numbers, BROKER_LOGGER: configs.BROKER_LOGGER_RESOURCE}[resource.kind]


def _quota_entity(resource: Resource) -> QuotaEntity:
    from minikafka.client.admin import QuotaEntity

    named = {entity.kind: entity.name for entity in resource.entities}
    return QuotaEntity(named.get(USER), named.get(CLIENT), USER in named, CLIENT in named)


async def _settings(admin: Admin, resource: Resource) -> list[tuple[str, str, list[ConfigEntry]]]:
    """(kind, name, settings) of the resource, or of all of its kind."""
    from minikafka.client.admin.configs import ALL_BROKERS, SOURCE_ALL_BROKERS

    kind, number = resource.kind, _resource_type(resource)
    if resource.entities[0].is_default:
        entries = await admin.describe_resource(number, ALL_BROKERS)
        ours = [
            entry._replace(value=value, source=source)
            for entry in entries
            for source, value in entry.synonyms
            if source == SOURCE_ALL_BROKERS
        ]
        return [(kind, DEFAULT_NAME, ours)]
    names = [resource.name] if resource.name is not None else await _names(admin, resource)
    return [(kind, name, await admin.describe_resource(number, name)) for name in names]


async def _names(admin: Admin, resource: Resource) -> list[str]:
    """Every topic, broker or group."""
    if resource.kind == TOPIC:
        return [topic.name for topic in await admin.list_topics()]
    if resource.kind in OF_BROKERS:
        return [str(node_id) for node_id in sorted((await admin.describe_cluster()).brokers)]
    return await _groups(admin, _resource_type(resource))


async def _groups(admin: Admin, number: int) -> list[str]:
    """Every group that has settings; where no broker lists these, every group."""
    from minikafka.errors import ErrorCode, KafkaError

    try:
        return await admin.list_config_resources(number)
    except KafkaError as error:
        if error.code is not ErrorCode.UNSUPPORTED_VERSION:
            raise
    return [group.group_id for group in await admin.list_groups()]


async def _quotas(admin: Admin, resource: Resource) -> list[tuple[str, str, list[ConfigEntry]]]:
    from minikafka.client.admin import ConfigEntry

    wanted = {entity.kind: entity for entity in resource.entities}
    found = []
    for entity, values in (await admin.describe_quotas()).items():
        named = {USER: entity.user} if entity.has_user else {}
        named |= {CLIENT: entity.client_id} if entity.has_client_id else {}
        if resource.is_named and wanted.keys() != named.keys():
            continue
        if any(
            kind not in named or not _matches(each.name, each.is_default, named[kind]) for kind, each in wanted.items()
        ):
            continue
        name = ", ".join(DEFAULT_NAME if each is None else each for each in named.values())
        entries = [ConfigEntry(key, quota.shown(value), False, 0) for key, value in values.items()]
        found.append((", ".join(named), name, entries))
    return found


def _matches(name: str | None, is_default: bool, found: str | None) -> bool:
    return found is None if is_default else name is None or found == name


def _print(
    found: list[tuple[str, str, list[ConfigEntry]]],
    resource: Resource,
    wanted: Sequence[str],
    *,
    show_all: bool,
    as_json: bool,
) -> None:
    chosen = [(kind, name, _chosen(f"{kind} {name}", entries, wanted, show_all)) for kind, name, entries in found]
    if as_json:
        print_json(
            [{"type": kind, "name": name, "settings": [_as_json(each) for each in own]} for kind, name, own in chosen]
        )
        return
    if not found:
        print_line(f"no {resource} has {'a quota' if resource.is_quota else 'settings'}")
    for (kind, name, own), (_, _, entries) in zip(chosen, found, strict=True):
        others = len(entries) - len(own)
        more = f"; --all shows {others} more" if others and not wanted else ""
        print_line(f"{kind} {name}:" if own else f"{kind} {name}: all defaults{more}")
        if own and resource.is_quota:
            print_table(QUOTA_COLUMNS, [(each.name, each.value or "") for each in own])
        elif own:
            print_table(COLUMNS, [(each.name, _value(each), _source(each)) for each in own])
            if more:
                print_line(f"the others are defaults{more}")


def _chosen(what: str, entries: list[ConfigEntry], wanted: Sequence[str], show_all: bool) -> list[ConfigEntry]:
    """Those that were asked for: by name, or all, or those that are not Kafka's defaults."""
    return _find(what, entries, wanted) if wanted else [each for each in entries if show_all or not each.is_default]


def _find(what: str, entries: list[ConfigEntry], wanted: Sequence[str]) -> list[ConfigEntry]:
    """Settings by their names. KafkaError when there is no such one, with the name that was meant."""
    from difflib import get_close_matches

    from minikafka.errors import ErrorCode, KafkaError

    by_name = {each.name: each for each in entries}
    for name in wanted:
        if name not in by_name:
            near = get_close_matches(name, by_name, 1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise KafkaError(ErrorCode.INVALID_CONFIG, f"{what} has no setting {name!r}{hint}")
    return [by_name[name] for name in wanted]


def _as_json(entry: ConfigEntry) -> dict[str, Any]:
    row: dict[str, Any] = {"name": entry.name, "value": entry.value}
    if entry.source:
        source = SOURCES.get(entry.source, (str(entry.source), ""))[0]
        row |= {"source": source, "read_only": entry.is_read_only, "sensitive": entry.is_sensitive}
    return row


def _value(entry: ConfigEntry) -> str:
    from rich.markup import escape

    return "[dim](hidden)[/]" if entry.is_sensitive else escape("" if entry.value is None else entry.value)


def _source(entry: ConfigEntry) -> str:
    return SOURCES[entry.source][1] if entry.source in SOURCES else ""
