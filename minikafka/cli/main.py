"""The application: every verb, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import os
import sys
from typing import Annotated, Any

import typer

import minikafka
from minikafka.cli import (
    acl,
    broker,
    chaos,
    cluster,
    completion,
    config,
    consume,
    delete_records,
    demo,
    elect_leaders,
    feature,
    group,
    inventory,
    log,
    log_dirs,
    logs,
    membership,
    move,
    output,
    pipeline,
    produce,
    quota,
    reassign,
    status,
    topic,
    transaction,
    user,
    verify,
    with_cluster,
)
from minikafka.cli.command_config import add_command_config
from minikafka.cli.paragraphs import FittingGroup, let_paragraphs_flow
from minikafka.cli.run import (
    BROKEN_PIPE,
    INTERRUPTED,
    let_other_signals_interrupt,
    let_output_lead_nowhere,
    open_closed_streams,
)

HELP = """A Kafka-compatible broker cluster that you can install, watch and break.

To begin:

[bold]minikafka cluster start[/]

[bold]minikafka topic create events --partitions 3[/]

[bold]seq 1000 | minikafka produce events[/]

[bold]minikafka cluster kill 1[/]

[bold]minikafka consume events --from-beginning --count 1000[/]
"""


MOVING = ("reassign", "elect-leaders", "log-dirs")


class _InOrder(FittingGroup):
    """Lists the verbs in the order in which one meets them."""

    def list_commands(self, ctx: Any) -> list[str]:
        return [
            "cluster",
            "chaos",
            "topic",
            "produce",
            "consume",
            "group",
            "transaction",
            "config",
            "quota",
            "user",
            "acl",
            *MOVING,
            "log",
            "pipeline",
            "broker",
            "run",
            "demo",
        ]


app = typer.Typer(
    name="minikafka",
    cls=_InOrder,
    help=HELP,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
cluster.app.command("status")(status.status)
cluster.app.command("logs")(logs.logs)
cluster.app.command("add")(membership.add)
cluster.app.command("drain")(membership.drain)
cluster.app.command("remove")(membership.remove)
cluster.app.command("list")(inventory.list_clusters)
cluster.app.command("delete")(inventory.delete)
cluster.app.add_typer(feature.app, name="feature")
cluster.app.command("unpause", hidden=True)(cluster.resume)  # as docker calls it
log.app.command("verify")(verify.verify)
topic.app.command("move")(move.move)
topic.app.command("delete-records")(delete_records.delete_records)
topic.app.command("rm", hidden=True)(topic.delete)
config.app.command("describe", hidden=True)(config.get)  # as kafka-configs.sh calls them
config.app.command("alter", hidden=True)(config.set_)
app.add_typer(cluster.app, name="cluster")
app.add_typer(chaos.app, name="chaos")
app.add_typer(topic.app, name="topic")
app.command("produce")(produce.produce)
app.command("consume")(consume.consume)
app.add_typer(group.app, name="group")
app.add_typer(transaction.app, name="transaction")
app.add_typer(config.app, name="config")
app.add_typer(quota.app, name="quota")
app.add_typer(user.app, name="user")
app.add_typer(acl.app, name="acl")
app.command("reassign")(reassign.reassign)
app.command("elect-leaders")(elect_leaders.elect_leaders)
app.command("log-dirs")(log_dirs.log_dirs)
app.add_typer(log.app, name="log")
app.add_typer(pipeline.app, name="pipeline")
app.command("broker")(broker.broker)
app.command("run", context_settings={"allow_interspersed_args": False})(with_cluster.run)
app.add_typer(demo.app, name="demo")
app.command("status", hidden=True)(status.status)
add_command_config(app)
let_paragraphs_flow(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        output.print_line(f"minikafka {minikafka.__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the command line; errors that a user can act on end it with one line and exit code 1."""
    open_closed_streams()
    let_other_signals_interrupt()
    completion.join_broken_words(os.environ)
    try:
        _run_and_flush()
    except KeyboardInterrupt:  # before there was a verb; those end by themselves
        raise SystemExit(INTERRUPTED) from None
    except Exception as error:
        if not _is_expected(error):
            raise
        output.fail(_in_words(error))


def _run_and_flush() -> None:
    """A reader that went away (``| head``) is no error, of the last lines either: the interpreter would complain."""
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except BrokenPipeError:
        let_output_lead_nowhere()
        raise SystemExit(BROKEN_PIPE) from None


def _in_words(error: Exception) -> str:
    if isinstance(error, OSError) and error.filename is not None and error.strerror:
        return f"{error.filename}: {error.strerror}"
    return str(error) or type(error).__name__


def _is_expected(error: Exception) -> bool:
    """True for errors whose message tells the user what to do; anything else is a bug and shows its traceback."""
    from minikafka.chaos.layout import ClusterError
    from minikafka.cli.lines import LineError
    from minikafka.client.reassigning.plan import PlanError
    from minikafka.errors import KafkaError
    from minikafka.spark.pipelines.running import PipelineError

    return isinstance(error, ClusterError | KafkaError | LineError | PipelineError | PlanError | OSError)
