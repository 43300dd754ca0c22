"""``minikafka acl``: who may do what on a cluster with an authorizer; options as those of ``kafka-acls.sh``."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import TYPE_CHECKING, Annotated, Any, Final, NamedTuple

import typer

from minikafka.cli import completion
from minikafka.cli.acl_names import check_somebody_is_meant
from minikafka.cli.options import ADMIN_TIMEOUT_S, AsJson, Bootstrap, Directory, Target, Timeout, target
from minikafka.cli.output import escaped, print_json, print_line, print_table
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.security.acls import AclBinding, AclFilter, AclOperation, PatternType, ResourceType

COLUMNS: Final = ("resource", "pattern", "principal", "host", "operation", "permission")

PATTERN_HELP: Final = "A name is that of one (literal), or the beginning of many (prefixed)."
SEARCH_HELP: Final = "ACLs that hold for the name (match), or that have it: literal, prefixed or any."

app = typer.Typer(
    no_args_is_help=True,
    help="Who may do what (ACLs), on nodes with authorizer.class.name. Nothing is allowed that no ACL allows.",
)


class Pattern(StrEnum):
    """How a name is meant."""

    LITERAL = "literal"
    PREFIXED = "prefixed"


class Search(StrEnum):
    """How a name is meant in a filter."""

    LITERAL = "literal"
    PREFIXED = "prefixed"
    MATCH = "match"
    ANY = "any"


Topics = Annotated[
    list[str] | None,
    typer.Option("--topic", metavar="TOPIC", help="About a topic; * is all.", autocompletion=completion.topics),
]
OfGroups = Annotated[
    list[str] | None,
    typer.Option("--group", metavar="GROUP", help="About a group; * is all.", autocompletion=completion.groups),
]
TransactionalIds = Annotated[
    list[str] | None, typer.Option("--transactional-id", metavar="ID", help="About a transactional id; * is all.")
]
Cluster = Annotated[bool, typer.Option("--cluster", help="About the cluster itself.")]
Allowed = Annotated[
    list[str] | None, typer.Option("--allow-principal", metavar="User:NAME", help="Who may; User:* is everyone.")
]
Denied = Annotated[
    list[str] | None, typer.Option("--deny-principal", metavar="User:NAME", help="Who may not; User:* is everyone.")
]
AllowedHosts = Annotated[
    list[str] | None, typer.Option("--allow-host", metavar="ADDRESS", help="From where.", show_default="*")
]
DeniedHosts = Annotated[
    list[str] | None, typer.Option("--deny-host", metavar="ADDRESS", help="From where not.", show_default="*")
]
Operations = Annotated[
    list[str] | None,
    typer.Option(
        "--operation",
        metavar="OPERATION",
        help="What: read, write, create, delete, alter, describe, describe-configs, alter-configs, cluster-action, "
        "idempotent-write or all; may be repeated.",
        show_default="all",
    ),
]
Producer = Annotated[
    bool, typer.Option("--producer", help="What a producer needs: write, describe and create on the topic.")
]
Consumer = Annotated[
    bool, typer.Option("--consumer", help="What a consumer needs: read and describe on the topic, read on the group.")
]
Idempotent = Annotated[bool, typer.Option("--idempotent", help="With --producer, also idempotent-write (before 3.0).")]


class Resources(NamedTuple):
    """The resources that a command line names."""

    topics: tuple[str, ...]
    groups: tuple[str, ...]
    transactional_ids: tuple[str, ...]
    cluster: bool

    def named(self) -> Iterator[tuple[ResourceType, str]]:
        """By type and name."""
        from minikafka.security.acls import CLUSTER_NAME, ResourceType

        for kind, names in (
            (ResourceType.TOPIC, self.topics),
            (ResourceType.GROUP, self.groups),
            (ResourceType.TRANSACTIONAL_ID, self.transactional_ids),
            (ResourceType.CLUSTER, (CLUSTER_NAME,) if self.cluster else ()),
        ):
            yield from ((kind, name) for name in names)


class Who(NamedTuple):
    """The principals that a command line names, and their hosts."""

    allowed: tuple[str, ...]
    denied: tuple[str, ...]
    allowed_hosts: tuple[str, ...]
    denied_hosts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Given:
    """The options that say which ACLs are meant, of verbs that write them."""

    allow_principal: Allowed = None
    deny_principal: Denied = None
    allow_host: AllowedHosts = None
    deny_host: DeniedHosts = None
    operation: Operations = None
    topic: Topics = None
    group: OfGroups = None
    transactional_id: TransactionalIds = None
    cluster: Cluster = False
    resource_pattern_type: Annotated[Pattern, typer.Option("--pattern-type", metavar="TYPE", help=PATTERN_HELP)] = (
        Pattern.LITERAL
    )
    producer: Producer = False
    consumer: Consumer = False
    idempotent: Idempotent = False

    @property
    def resources(self) -> Resources:
        """What they are about."""
        return _resources(self.topic, self.group, self.transactional_id, self.cluster)

    @property
    def is_narrowed(self) -> bool:
        """Whether they are not all that there are of the resources and principals."""
        roles = (self.producer, self.consumer, self.idempotent)
        return bool(self.allow_host or self.deny_host or self.operation) or any(roles)

    def acls(self) -> list[AclBinding]:
        """Raises BadParameter."""
        who = _who(self.allow_principal, self.deny_principal, self.allow_host, self.deny_host)
        roles = (self.producer, self.consumer, self.idempotent)
        return list(_acls(self.resources, who, self.operation, self.resource_pattern_type, *roles))


def _taking_acls(verb: Callable[..., None]) -> Callable[..., None]:
    """Let a verb have these options, and get them as its first argument."""
    options = inspect.signature(Given, eval_str=True).parameters.values()
    signature = inspect.signature(verb, eval_str=True)

    @functools.wraps(verb)
    def taking(**values: Any) -> None:
        verb(Given(**{option.name: values.pop(option.name) for option in options}), **values)

    parameters = [*options, *list(signature.parameters.values())[1:]]
    changed: Any = taking
    changed.__signature__ = signature.replace(parameters=parameters)
    changed.__annotations__ = {each.name: each.annotation for each in parameters}
    return taking


@app.command()
@_taking_acls
def add(
    given: Given,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Allow somebody something, or deny it.

    Examples:

    [bold]minikafka acl add --allow-principal User:shop --producer --topic orders[/]

    [bold]minikafka acl add --allow-principal User:mail --consumer --topic orders --group mail[/]
    """
    acls = given.acls()
    check_somebody_is_meant(given)

    async def verb(admin: Admin) -> None:
        await admin.create_acls(acls)
        _print(acls)

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command("list")
def list_(
    principal: Annotated[
        list[str] | None, typer.Option("--principal", metavar="User:NAME", help="Only ACLs of this principal.")
    ] = None,
    topic: Topics = None,
    group: OfGroups = None,
    transactional_id: TransactionalIds = None,
    cluster: Cluster = False,
    resource_pattern_type: Annotated[
        Search,
        typer.Option("--pattern-type", metavar="TYPE", help=SEARCH_HELP),
    ] = Search.MATCH,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
    as_json: AsJson = False,
) -> None:
    """Show ACLs: all, or those that hold for a topic, a group, a transactional id, the cluster or a principal."""
    resources = _resources(topic, group, transactional_id, cluster)
    filters = _filters(resources, tuple(principal or ()), _pattern_type(resource_pattern_type.value))

    async def verb(admin: Admin) -> None:
        found = {acl: None for wanted in filters for acl in await admin.describe_acls(wanted)}
        if as_json:
            print_json([_as_json(acl) for acl in found])
        elif not found:
            print_line("there are no such ACLs" if any(filters[0]) else "there are no ACLs")
        else:
            _print(found)

    run_with_admin(verb, target(bootstrap, directory), timeout)


@app.command()
@_taking_acls
def remove(
    given: Given,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Remove ACLs that were added with the same options; without a principal, all of the resource.

    Example:

    [bold]minikafka acl remove --topic orders[/]
    """
    from minikafka.security.acls import AclFilter

    if not any(given.resources):
        raise _no_resource()
    if given.allow_principal or given.deny_principal or given.is_narrowed:
        filters = [AclFilter(*acl) for acl in given.acls()]
    else:
        filters = _filters(given.resources, (), _pattern_type(given.resource_pattern_type.value))
    _remove(filters, target(bootstrap, directory), timeout)


def _remove(filters: list[AclFilter], cluster: Target, timeout: float) -> None:
    from minikafka.security.acls import AclOperation

    async def verb(admin: Admin) -> None:
        removed = await admin.delete_acls(filters)
        if removed:
            _print(removed)
        print_line(f"{len(removed)} ACL{'s' if len(removed) != 1 else ''} removed")
        if not removed and all(each.operation is AclOperation.ALL for each in filters):
            print_line(f"those of operation all were meant; name others by --operation: {cluster.command('acl list')}")

    run_with_admin(verb, cluster, timeout)


def _no_resource() -> typer.BadParameter:
    return typer.BadParameter("say of what: --topic TOPIC, for example", param_hint="--topic")


def _resources(
    topics: list[str] | None, groups: list[str] | None, transactional_ids: list[str] | None, cluster: bool
) -> Resources:
    return Resources(tuple(topics or ()), tuple(groups or ()), tuple(transactional_ids or ()), cluster)


def _who(
    allowed: list[str] | None, denied: list[str] | None, allowed_hosts: list[str] | None, denied_hosts: list[str] | None
) -> Who:
    for option, principals in (("--allow-principal", allowed), ("--deny-principal", denied)):
        for principal in principals or ():
            if ":" not in principal:
                raise typer.BadParameter(f"{principal!r} is not User:NAME", param_hint=option)
    if not (allowed or denied):
        raise typer.BadParameter("say who: --allow-principal User:NAME, for example", param_hint="--allow-principal")
    for hosts, principals, option in ((allowed_hosts, allowed, "allow"), (denied_hosts, denied, "deny")):
        if hosts and not principals:
            raise typer.BadParameter(f"needs --{option}-principal", param_hint=f"--{option}-host")
    return Who(tuple(allowed or ()), tuple(denied or ()), tuple(allowed_hosts or "*"), tuple(denied_hosts or "*"))


def _acls(
    resources: Resources,
    who: Who,
    operations: list[str] | None,
    pattern: Pattern,
    producer: bool,
    consumer: bool,
    idempotent: bool,
) -> Iterator[AclBinding]:
    from minikafka.security.acls import AclBinding, AclPermission, PatternType, ResourceType

    if producer or consumer:
        asked = _of_roles(resources, operations, producer, consumer, idempotent)
    else:
        asked = [(kind, name, each) for kind, name in resources.named() for each in _operations(operations)]
    if not asked:
        raise _no_resource()
    sides = (
        (AclPermission.ALLOW, who.allowed, who.allowed_hosts),
        (AclPermission.DENY, who.denied, who.denied_hosts),
    )
    for permission, principals, hosts in sides:
        for principal, host, (kind, name, operation) in product(principals, hosts, asked):
            is_literal = pattern is Pattern.LITERAL or kind is ResourceType.CLUSTER
            pattern_type = PatternType.LITERAL if is_literal else PatternType.PREFIXED
            yield AclBinding(kind, name, pattern_type, principal, host, operation, permission)


def _of_roles(
    resources: Resources, operations: list[str] | None, producer: bool, consumer: bool, idempotent: bool
) -> list[tuple[ResourceType, str, AclOperation]]:
    """As ``kafka-acls.sh`` has them."""
    from minikafka.security.acls import CLUSTER_NAME, AclOperation, ResourceType

    if operations:
        raise typer.BadParameter("comes with neither --producer nor --consumer", param_hint="--operation")
    if not resources.topics:
        raise typer.BadParameter("--producer and --consumer need a topic", param_hint="--topic")
    if consumer and not resources.groups:
        raise typer.BadParameter("--consumer needs a group", param_hint="--group")
    found: dict[tuple[ResourceType, str, AclOperation], None] = {}
    of_ids = (AclOperation.WRITE, AclOperation.DESCRIBE)
    if producer:
        of_topics = (AclOperation.WRITE, AclOperation.DESCRIBE, AclOperation.CREATE)
        found |= dict.fromkeys((ResourceType.TOPIC, *each) for each in product(resources.topics, of_topics))
        ids = product(resources.transactional_ids, of_ids)
        found |= dict.fromkeys((ResourceType.TRANSACTIONAL_ID, *each) for each in ids)
        if idempotent:
            found[ResourceType.CLUSTER, CLUSTER_NAME, AclOperation.IDEMPOTENT_WRITE] = None
    if consumer:
        of_consumers = (AclOperation.READ, AclOperation.DESCRIBE)
        found |= dict.fromkeys((ResourceType.TOPIC, *each) for each in product(resources.topics, of_consumers))
        found |= dict.fromkeys((ResourceType.GROUP, name, AclOperation.READ) for name in resources.groups)
    return list(found)


def _operations(names: list[str] | None) -> list[AclOperation]:
    from minikafka.security.acls import AclOperation

    found = []
    for name in names or ["all"]:
        plain = name.replace("-", "").replace("_", "").lower()
        chosen = next((each for each in AclOperation if each.name.replace("_", "").lower() == plain), None)
        if chosen is None:
            known = ", ".join(_word(each.name) for each in AclOperation)
            raise typer.BadParameter(f"{name!r} is none of {known}", param_hint="--operation")
        found.append(chosen)
    return found


def _pattern_type(name: str) -> PatternType | None:
    from minikafka.security.acls import PatternType

    return None if name == Search.ANY.value else PatternType[name.upper()]


def _filters(resources: Resources, principals: tuple[str, ...], pattern_type: PatternType | None) -> list[AclFilter]:
    from minikafka.security.acls import AclFilter

    whom = principals or (None,)
    named = list(resources.named())
    if not named:
        return [AclFilter(principal=principal) for principal in whom]
    return [
        AclFilter(kind, name, pattern_type, principal=principal) for (kind, name), principal in product(named, whom)
    ]


def _word(name: str) -> str:
    return name.lower().replace("_", "-")


def _print(acls: Iterable[AclBinding]) -> None:
    print_table(
        COLUMNS,
        [
            (
                f"{_word(acl.resource_type.name)} {escaped(acl.resource_name)}",
                _word(acl.pattern_type.name),
                escaped(acl.principal),
                escaped(acl.host),
                _word(acl.operation.name),
                _word(acl.permission.name),
            )
            for acl in acls
        ],
    )


def _as_json(acl: AclBinding) -> dict[str, str]:
    return {key: value if isinstance(value, str) else _word(value.name) for key, value in acl._asdict().items()}
