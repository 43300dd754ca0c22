"""``minikafka topic move``: a reassignment of one partition without a plan in a file."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from minikafka.cli.options import ADMIN_TIMEOUT_S, Bootstrap, Directory, Target, Timeout, target
from minikafka.cli.output import print_line, print_note
from minikafka.cli.reassign import follow_to_end, parse_brokers
from minikafka.cli.reassign_view import print_cleared
from minikafka.cli.run import run_with_admin

if TYPE_CHECKING:
    from minikafka.client import Admin
    from minikafka.client.reassigning.plan import Plan
    from minikafka.model import TopicPartition


def move(
    partition: Annotated[str, typer.Argument(metavar="TOPIC:PARTITION", show_default=False)],
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="2,3,1",
            help="Brokers of the replicas, the preferred leader first. Their number is the new replication factor.",
            show_default=False,
        ),
    ],
    throttle: Annotated[
        int | None,
        typer.Option(
            metavar="BYTES/S",
            min=1,
            help="Throttle, in bytes per second, from and to each broker.",
            show_default="none",
        ),
    ] = None,
    bootstrap: Bootstrap = None,
    directory: Directory = None,
    timeout: Timeout = ADMIN_TIMEOUT_S,
) -> None:
    """Move one partition to other brokers, or change their order. Clients go on meanwhile.

    Example:

    [bold]minikafka topic move events:0 --to 2,3,1[/]

    For many partitions at once: [bold]minikafka reassign --help[/]
    """
    tp, brokers, cluster = _parse(partition), parse_brokers(to, "--to"), target(bootstrap, directory)
    run_with_admin(partial(_move, tp, brokers, throttle, cluster), cluster, timeout)


def _parse(text: str) -> TopicPartition:
    from minikafka.model import TopicPartition

    topic, separator, partition = text.rpartition(":")
    if not topic or not separator or not partition.isdecimal():
        raise typer.BadParameter(f"{text!r} is not TOPIC:PARTITION, for example events:0", param_hint="TOPIC:PARTITION")
    return TopicPartition(topic, int(partition))


async def _move(tp: TopicPartition, brokers: list[int], throttle: int | None, cluster: Target, admin: Admin) -> None:
    from minikafka.client.reassigning.plan import placed
    from minikafka.client.reassigning.tool import Reassigner

    tool, plan = Reassigner(admin), placed({tp: brokers})

    def print_way_back(before: Plan) -> None:
        replicas = ",".join(map(str, before[tp].replicas))
        back = cluster.command(f"topic move {tp.topic}:{tp.partition} --to {replicas}")
        print_line(f"moving {tp} from brokers {replicas}; the way back: {back}")

    begun = await tool.execute(plan, throttle=throttle, on_checked=print_way_back)
    progress = await follow_to_end(tool, begun, cluster.command("reassign --list"))
    if begun.throttle.brokers:
        print_cleared(await tool.clear_throttles(plan))
    if not progress.is_complete:
        print_note(f"{tp} has the replicas {progress.replicas[tp]}: the move was cancelled or replaced by another")
        raise typer.Exit(1)
    leader = (await admin.describe_cluster()).topics[tp.topic].partitions[tp.partition].leader
    print_line(f"{tp} has its replicas on brokers {','.join(map(str, brokers))}; its leader is {leader}")
    if leader != brokers[0]:
        elect = cluster.command(f"elect-leaders --topic {tp.topic} --partition {tp.partition}")
        print_note(f"make broker {brokers[0]} its leader with: {elect}")
