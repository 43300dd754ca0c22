"""Subscriptions by regular expression (RE2's syntax): which topics they match (row G10).

The machine has no expressions of its own. It asks the driver, which matches in a thread
(:class:`~minikafka.groups.effects.ResolveRegexes`), and goes on meanwhile. What comes back is a row of the group. If it
is another one than before, the group epoch rises, and the next heartbeats get partitions. Expressions are looked at
again when topics have come or gone, but not more often than every ten seconds, and at the latest after ten minutes
(``group.consumer.regex.refresh.interval.ms``). The member whose heartbeat asks must be allowed to describe the topics.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Final

from minikafka.errors import ErrorCode
from minikafka.groups.consumer.change import Change
from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.records import Kind, ResolvedRegex
from minikafka.groups.joins import Caller
from minikafka.groups.shard import Shard

REFRESH_INTERVAL_MIN_MS: Final = 10_000


def maybe_resolve(shard: Shard, consumer: ConsumerGroup, caller: Caller) -> None:
    """Ask the driver, if an expression is new, or topics may have changed."""
    if consumer.is_resolving or not consumer.subscribed.regexes:
        return
    wanted = consumer.subscribed.regexes
    age_ms = shard.now_ms - consumer.resolved_at_ms
    is_old = consumer.resolved_version != shard.topics_version and age_ms >= REFRESH_INTERVAL_MIN_MS
    if is_old or age_ms >= shard.settings.consumer_regex_refresh_interval_ms or wanted.keys() - consumer.regexes.keys():
        consumer.is_resolving = True
        shard.resolve_regexes(consumer.group_id, wanted, caller)


def on_resolved(shard: Shard, group_id: str, topics: Mapping[str, tuple[str, ...]], version: int) -> None:
    """The driver's answer: by expression, the topics that it matches. One that cannot be used matches none."""
    group = shard.groups.get(group_id)
    consumer = None if group is None else group.consumer
    if consumer is not None:
        consumer.is_resolving = False
    if group is None or consumer is None or not group.is_consumer:
        return
    wanted = consumer.subscribed.regexes
    consumer.resolved_at_ms = shard.now_ms
    if wanted and wanted.keys() <= topics.keys():
        consumer.resolved_version = version
    change = Change(shard, group)
    has_changed = False
    for regex, names in topics.items():
        found = tuple(sorted(names))
        if regex in wanted and (regex not in consumer.regexes or consumer.topics_of(regex) != found):
            change.put(Kind.REGULAR_EXPRESSION, regex, ResolvedRegex(found, version, shard.wall_clock_ms()))
            has_changed = True
    if has_changed:
        change.raise_epoch()
    change.finish(partial(_written, consumer))


def _written(consumer: ConsumerGroup, error: ErrorCode) -> None:
    if error is not ErrorCode.NONE:
        consumer.resolved_version = -1  # to be asked again
