"""Verbs of ``minikafka chaos`` that break a running local cluster, and mend it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Final

import typer

from minikafka.cli.cluster import open_cluster
from minikafka.cli.options import AsJson, Directory
from minikafka.cli.output import print_json, print_line, print_table

if TYPE_CHECKING:
    from minikafka.chaos.faults import Party

Nodes = Annotated[
    list[int] | None,
    typer.Option("--node", metavar="N", help="At this node only; may be repeated.", show_default="all"),
]
LinkArgument = Annotated[
    str,
    typer.Argument(
        metavar="A-B", help="Two nodes, or a node and clients: 1-2, 1-clients, clients-1.", show_default=False
    ),
]
_LEFT: Final = re.compile(", ([0-9]+ more times|once more)$")
"""How often a rule is still to be met, which differs from node to node."""
rule_app = typer.Typer(no_args_is_help=True, help="Rules for requests of clients: errors, late or lost answers.")


def cut(
    link: Annotated[
        str,
        typer.Argument(
            metavar="A-B", help="A link: 1-2, 1-clients; or a node, for all of its links.", show_default=False
        ),
    ],
    one_way: Annotated[bool, typer.Option("--one-way", help="Only what A sends to B.")] = False,
    directory: Directory = None,
) -> None:
    """Cut the link between two nodes, or between a node and its clients. What is sent waits until it is healed.

    Examples:

    [bold]minikafka chaos cut 1-2 --one-way[/]

    [bold]minikafka chaos cut 3[/]
    """
    cluster = open_cluster(directory)
    if link.isdecimal():
        if one_way:
            raise typer.BadParameter("one way of which link? name it: 1-2", param_hint="--one-way")
        cluster.isolate(int(link))
        print_line(f"cut all links of node {link}")
        return
    one, other = _parties(link)
    cluster.cut(one, other, one_way=one_way)
    print_line(
        f"cut the link {'from' if one_way else 'between'} {_named(one)} {'to' if one_way else 'and'} {_named(other)}"
    )


def slow(
    link: LinkArgument,
    delay_ms: Annotated[int, typer.Option("--delay", metavar="MS", help="Answers come so much later.", min=0)] = 0,
    rate: Annotated[
        int, typer.Option("--rate", metavar="BYTES/S", help="So much of answers passes.", min=0, show_default="any")
    ] = 0,
    directory: Directory = None,
) -> None:
    """Slow a link down. Neither option: it is as fast as ever.

    Example: [bold]minikafka chaos slow 1-clients --delay 200[/]
    """
    one, other = _parties(link)
    open_cluster(directory).slow(one, other, delay_ms=delay_ms, bytes_per_s=rate)
    how = [f"{delay_ms:,} ms late"] * bool(delay_ms) + [f"at {rate:,} bytes a second"] * bool(rate)
    print_line(f"answers between {_named(one)} and {_named(other)} come {' and '.join(how) or 'as fast as ever'}")


def clock(
    node: Annotated[int, typer.Argument(metavar="N", help="Node id.", show_default=False)],
    off_ms: Annotated[
        int, typer.Option("--off", metavar="MS", help="So wrong, into the future; negative: into the past.")
    ] = 0,
    drift: Annotated[float, typer.Option(metavar="S", help="So many seconds more every second.")] = 0.0,
    directory: Directory = None,
) -> None:
    """Make the wall clock of a node wrong. Neither option: it is right again.

    Example: [bold]minikafka chaos clock 1 --off -3600000[/]
    """
    open_cluster(directory).clock(node, off_ms, drift=drift)
    drifting = f", and {drift:+g} s more every second" if drift else ""
    print_line(
        f"the clock of node {node} is wrong by {off_ms:+,} ms{drifting}"
        if off_ms or drift
        else f"the clock of node {node} is right"
    )


def disk(
    node: Annotated[int, typer.Argument(metavar="N", help="Node id.", show_default=False)],
    full: Annotated[bool | None, typer.Option("--full/--not-full", help="Nothing more can be written.")] = None,
    sync_delay_ms: Annotated[
        int | None, typer.Option("--sync-delay", metavar="MS", help="Each sync takes so much longer.", min=0)
    ] = None,
    unreadable: Annotated[bool | None, typer.Option("--unreadable/--readable", help="Logs cannot be read.")] = None,
    lying: Annotated[
        bool | None,
        typer.Option("--lying/--honest", help="What is written from now on is lost when the node is killed."),
    ] = None,
    directory: Directory = None,
) -> None:
    """Fill the disk of a node, slow its syncs down, make its logs unreadable, or let it lie about syncs.

    A lying disk is a power cut that can be had without root: cluster kill ends the node as if its machine lost power.

    Example: [bold]minikafka chaos disk 1 --full[/]
    """
    cluster = open_cluster(directory)
    if full is None and sync_delay_ms is None and unreadable is None and lying is None:
        raise typer.BadParameter(
            "what is wrong with it? --full, --sync-delay MS, --unreadable or --lying", param_hint="disk"
        )
    cluster.disk(node, full=full, sync_delay_ms=sync_delay_ms, unreadable=unreadable, lying=lying)
    _show({node: cluster.faults([node])[node]})


def damage(
    node: Annotated[int, typer.Argument(metavar="N", help="Node id.", show_default=False)],
    partition: Annotated[
        str, typer.Argument(metavar="TOPIC:N", help="A partition; without :N the first.", show_default=False)
    ],
    cut: Annotated[bool, typer.Option("--cut", help="Cut the end off instead.")] = False,
    directory: Directory = None,
) -> None:
    """Overwrite some bytes of a segment of a replica, as a bad disk does. The node may run or be down.

    It finds that out when it reads there, or when it starts, and mends it from other replicas.

    Example: [bold]minikafka chaos damage 1 events:0[/]
    """
    topic, _, number = partition.partition(":")
    if number and not number.isdecimal():
        raise typer.BadParameter(f"{number!r} is no partition; for example events:0", param_hint="TOPIC:N")
    done = open_cluster(directory).damage(node, topic, int(number or 0), cut=cut)
    print_line(f"damaged on node {node}: {done}")


@rule_app.command("add")
def add_rule(
    api: Annotated[str, typer.Argument(metavar="API", help="Produce, Fetch, OffsetCommit, ...", show_default=False)],
    error: Annotated[str | None, typer.Option(metavar="NAME", help="Answer with this error.")] = None,
    delay_ms: Annotated[int | None, typer.Option("--delay", metavar="MS", help="Answer so much later.", min=1)] = None,
    drop: Annotated[bool, typer.Option("--drop", help="Do not answer.")] = False,
    disconnect: Annotated[bool, typer.Option("--disconnect", help="End the connection instead.")] = False,
    duplicate: Annotated[bool, typer.Option("--duplicate", help="Answer twice.")] = False,
    versions: Annotated[
        str | None, typer.Option(metavar="A-B", help="Serve these versions only, as an older broker.")
    ] = None,
    after: Annotated[
        bool, typer.Option("--after", help="Carry it out before it fails: its outcome is unknown to the client.")
    ] = False,
    client_id: Annotated[
        str | None,
        typer.Option(metavar="PATTERN", help="For these clients: a client.id; * and ? fit any.", show_default="all"),
    ] = None,
    times: Annotated[
        int | None, typer.Option(metavar="N", help="For so many requests at each node.", min=1, show_default="any")
    ] = None,
    nodes: Nodes = None,
    directory: Directory = None,
) -> None:
    """Add a rule; the first that fits a request decides.

    Examples:

    [bold]minikafka chaos rule add Produce --error NOT_LEADER_OR_FOLLOWER --times 3[/]

    [bold]minikafka chaos rule add OffsetCommit --disconnect --after --client-id 'app-*'[/]
    """
    cluster = open_cluster(directory)
    numbers = cluster.rule(
        api,
        error=error,
        delay_ms=delay_ms,
        drop=drop,
        disconnect=disconnect,
        duplicate=duplicate,
        versions=versions,
        after=after,
        client_id=client_id,
        times=times,
        brokers=nodes or None,
    )
    faults = cluster.faults(numbers)
    _show({node: [each for each in faults[node] if each.startswith(f"rule {numbers[node]}:")] for node in numbers})


@rule_app.command("remove")
def remove_rule(
    number: Annotated[int, typer.Argument(metavar="RULE", help="As `chaos faults` shows it.", show_default=False)],
    nodes: Nodes = None,
    directory: Directory = None,
) -> None:
    """Take a rule away, at all nodes where it is."""
    cluster = open_cluster(directory)
    known = cluster.faults(nodes or cluster.responsive())
    cluster.remove_rule(dict.fromkeys(nodes_of_rule(number, known, are_chosen=bool(nodes)), number))
    print_line(f"removed rule {number}")


@rule_app.command("list")
def list_rules(directory: Directory = None, as_json: AsJson = False) -> None:
    """Show the rules of all nodes."""
    cluster = open_cluster(directory)
    known = cluster.faults(cluster.responsive())
    _show({node: [each for each in known[node] if each.startswith("rule ")] for node in known}, as_json=as_json)


def faults(directory: Directory = None, as_json: AsJson = False) -> None:
    """Show what is broken now, by node. Killed and paused nodes are shown by [bold]cluster status[/]."""
    cluster = open_cluster(directory)
    _show(cluster.faults(cluster.responsive()), as_json=as_json)


def heal(nodes: Nodes = None, directory: Directory = None) -> None:
    """Mend links, clocks and disks, and take away rules. Killed and paused nodes stay as they are."""
    cluster = open_cluster(directory)
    chosen = nodes or cluster.responsive()
    cluster.mend(chosen)
    print_line("healed")


def nodes_of_rule(number: int, known: dict[int, list[str]], *, are_chosen: bool) -> list[int]:
    """Where a rule is, by the faults of nodes. ClusterError: nowhere. BadParameter: each node counts its rules by
    itself, it is another one here than there, and nobody chose. Pure."""
    from minikafka.chaos.layout import ClusterError

    found = {node: each for node, faults in known.items() for each in faults if each.startswith(f"rule {number}:")}
    if not found:
        at = f" at node {', '.join(map(str, known))}" if are_chosen else ""
        raise ClusterError(f"there is no rule {number}{at}; `minikafka chaos rule list` shows all")
    if not are_chosen and len({_LEFT.sub("", each) for each in found.values()}) > 1:
        rules = "; ".join(f"at node {node} {each}" for node, each in found.items())
        raise typer.BadParameter(f"which of them? say --node N: {rules}", param_hint="RULE")
    return list(found)


def _parties(link: str) -> tuple[Party, Party]:
    parties = [int(name) if name.isdecimal() else name for name in link.split("-")]
    if len(parties) != 2 or any(isinstance(party, str) and party != "clients" for party in parties):
        raise typer.BadParameter(f"{link!r} is no link; write 1-2, 1-clients or clients-1", param_hint="A-B")
    return parties[0], parties[1]


def _named(party: Party) -> str:
    return f"node {party}" if isinstance(party, int) else party


def _show(known: dict[int, list[str]], *, as_json: bool = False) -> None:
    if as_json:
        print_json({str(node): sentences for node, sentences in known.items()})
        return
    rows = [(str(node), sentence) for node, sentences in known.items() for sentence in sentences]
    if rows:
        print_table(("node", "fault"), rows)
    else:
        print_line("nothing is broken")
