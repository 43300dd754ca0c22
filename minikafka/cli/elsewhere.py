"""What Kafka's own tools and others call our verbs and options: it works, or it is said what does."""

from __future__ import annotations

import shlex
from collections.abc import Container, Sequence
from typing import Final

from typer.core import TyperGroup

ELSEWHERE: Final = {
    "up": "start",
    "down": "stop",
    "ps": "status",
    "ls": "list",
    "rm": "delete",
    "info": "status",
    "brokers": "status",
    "broker-api-versions": "status",
    "topics": "topic",
    "groups": "group",
    "consumer-groups": "group",
    "transactions": "transaction",
    "forceTerminateTransaction": "terminate",
    "console-producer": "produce",
    "producer": "produce",
    "console-consumer": "consume",
    "consumer": "consume",
    "reassign-partitions": "reassign",
    "leader-election": "elect-leaders",
    "get-offsets": "topic describe",
    "features": "feature",
    "configs": "config",
    "quotas": "quota",
    "acls": "acl",
    "dump-log": "dump",
    "check": "verify",
    "server-start": "broker",
    "version": "--version",
    "help": "--help",
}
"""What other tools call our verbs, Kafka's own without ``kafka-`` before their names."""

_MEASURES: Final = "python -m benchmarks measures throughput, in a checkout"
_WATCH: Final = "to repeat a verb: watch -n 1 minikafka cluster status"
_DASHBOARD: Final = f"{_WATCH}; docs/metrics.md has a dashboard for Grafana"
NOT_HERE: Final = {
    "delegation-tokens": "there are none; clients log in with a password, a token or a certificate",
    "consumer-perf-test": _MEASURES,
    "metadata-quorum": "minikafka cluster status shows the controller that leads the quorum",
    "mirror-maker": "use that of Kafka, or: minikafka consume --json | minikafka produce --input json",
    "producer-perf-test": _MEASURES,
    "storage": "a node formats its directories by itself; minikafka cluster start begins a cluster",
    "dashboard": _DASHBOARD,
    "ui": _DASHBOARD,
    "watch": _WATCH,
    "zookeeper-shell": "there is no ZooKeeper; minikafka cluster status shows the quorum",
}
"""What there is no verb for, and why."""

_SPELLINGS: Final = {
    "--bootstrap-servers": "--bootstrap-server",
    "--bootstrap.servers": "--bootstrap-server",
    "--broker-list": "--bootstrap-server",
    "--brokers": "--bootstrap-server",
    "--formatter-property": "--property",
    "--reader-property": "--property",
    "--compression-codec": "--compression",
    "--compression-type": "--compression",
    "--request-required-acks": "--acks",
    "--whitelist": "--include",
    "--consumer-group": "--group",
    "--consumer.config": "--command-config",
    "--producer.config": "--command-config",
    "--admin.config": "--command-config",
    "--resource-pattern-type": "--pattern-type",
    "-o": "--offset",
    "-c": "--count",
    "-f": "--format",
}
"""The short ones are kcat's; a verb that has another meaning for one keeps it."""

_REASONS: Final = {
    "--watch": _WATCH.capitalize(),
    "--zookeeper": "There is no ZooKeeper: name a broker with --bootstrap-server",
    "--formatter": "What is printed is said with --json, --format or --print-...",
    "--key-deserializer": "Bytes are printed as they are; --json has base64 for what is no text",
    "--value-deserializer": "Bytes are printed as they are; --json has base64 for what is no text",
}
_ACTIONS: Final = {("config", "describe"): "get", ("config", "alter"): "set"}
"""Verbs of a group by the options that Kafka's tools have for them, where they differ."""


def spelled_as_ours(arg: str, ours: Container[str]) -> str:
    """An option of another spelling as ours, if the verb has that one."""
    name, separator, value = arg.partition("=")
    known = _SPELLINGS.get(name)
    return f"{known}{separator}{value}" if known in ours and name not in ours else arg


def why_not_here(arg: str, ours: Container[str]) -> str | None:
    """Why a verb has no such option, if that is known."""
    name = arg.partition("=")[0]
    return None if name in ours else _REASONS.get(name)


def with_action(group: TyperGroup, words: list[str], rest: Sequence[str]) -> tuple[list[str], list[str]]:
    """The verb of a group that an option like ``--list`` of Kafka's tools stands for, and what else was given."""
    inner = group
    for word in words:
        command = inner.commands.get(word)
        if not isinstance(command, TyperGroup):
            return words, list(rest)
        inner = command
    for at, arg in enumerate(rest):
        action = _ACTIONS.get((words[-1], arg.removeprefix("--")), arg.removeprefix("--"))
        if action in inner.commands and arg.startswith("--"):
            return [*words, action], [*rest[:at], *rest[at + 1 :]]
    return words, list(rest)


def command_line(path: str, words: Sequence[str], rest: Sequence[str]) -> str:
    """What to type instead."""
    return " ".join([path, *words, *([shlex.join(rest)] if rest else [])])
