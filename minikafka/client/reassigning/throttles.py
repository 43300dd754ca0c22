"""Throttled replicas of a reassignment, as Kafka's settings name them (KIP-73, row A4; pure).

A rate is set on brokers (bytes a second, once for what leaders send and once for what followers fetch) and counts for
the replicas that topics list as ``partition:broker``: on the leaders' side all that are there now, because any of them
may lead; on the followers' side those that are new.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from minikafka.client.admin import Reassignment
from minikafka.client.reassigning.plan import Plan
from minikafka.model import TopicPartition

LEADER_RATE: Final = "leader.replication.throttled.rate"
FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
LOG_DIR_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"

BROKER_SETTINGS: Final = (LEADER_RATE, FOLLOWER_RATE, LOG_DIR_RATE)
TOPIC_SETTINGS: Final = (LEADER_REPLICAS, FOLLOWER_REPLICAS)


class Throttle(NamedTuple):
    """Settings by broker and by topic."""

    brokers: dict[int, dict[str, str]]
    topics: dict[str, dict[str, str]]


def throttle_for(
    plan: Plan,
    current: Mapping[TopicPartition, tuple[int, ...]],
    ongoing: Mapping[TopicPartition, Reassignment],
    *,
    rate: int | None,
    log_dir_rate: int | None = None,
) -> Throttle:
    """What to set before the plan is begun. ``current`` are all replicas there are, those of ``ongoing`` included;
    what is ongoing stays throttled. ``log_dir_rate`` is for moves between directories of one broker."""
    brokers: dict[int, dict[str, str]] = {}
    topics: dict[str, dict[str, str]] = {}
    if rate is not None:
        leaders: dict[str, list[str]] = {}
        followers: dict[str, list[str]] = {}
        moving = {
            **{tp: each.adding for tp, each in ongoing.items()},
            **{tp: _added(placement.replicas, current[tp], ongoing.get(tp)) for tp, placement in plan.items()},
        }
        for tp, added in sorted(moving.items()):
            if not added:
                continue
            there = [broker for broker in current.get(tp, ()) if broker not in added]
            leaders.setdefault(tp.topic, []).extend(f"{tp.partition}:{broker}" for broker in there)
            followers.setdefault(tp.topic, []).extend(f"{tp.partition}:{broker}" for broker in added)
            for broker in (*there, *added):
                brokers.setdefault(broker, {}).update({LEADER_RATE: str(rate), FOLLOWER_RATE: str(rate)})
        for topic in leaders:
            topics[topic] = {
                LEADER_REPLICAS: ",".join(leaders[topic]),
                FOLLOWER_REPLICAS: ",".join(followers[topic]),
            }
    if log_dir_rate is not None:
        for placement in plan.values():
            for broker, _ in placement.directories():
                brokers.setdefault(broker, {})[LOG_DIR_RATE] = str(log_dir_rate)
    return Throttle(brokers, topics)


def _added(target: tuple[int, ...], current: tuple[int, ...], ongoing: Reassignment | None) -> tuple[int, ...]:
    """Replicas that have yet to catch up."""
    caught_up = set(current) - set(ongoing.adding if ongoing is not None else ())
    return tuple(broker for broker in target if broker not in caught_up)
