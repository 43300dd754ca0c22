"""How reassignments are shown: in the words of Kafka's tool, and as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from minikafka.cli.output import print_line

if TYPE_CHECKING:
    from minikafka.client.admin import Reassignment
    from minikafka.client.reassigning.plan import Plan
    from minikafka.client.reassigning.progress import Progress
    from minikafka.client.reassigning.throttles import Throttle
    from minikafka.model import TopicPartition

    Ongoing = Mapping[TopicPartition, Reassignment]


def ongoing_lines(ongoing: Ongoing) -> Iterator[str]:
    """Each reassignment that is under way."""
    for tp, each in ongoing.items():
        adding = f" adding: {ids(each.adding)}." if each.adding else ""
        removing = f" removing: {ids(each.removing)}." if each.removing else ""
        yield f"{tp}: replicas: {ids(each.replicas)}.{adding}{removing}"


def ongoing_as_list(ongoing: Ongoing) -> list[dict[str, Any]]:
    """The same for scripts."""
    return [_partition(tp) | each._asdict() for tp, each in ongoing.items()]


def status_lines(plan: Plan, progress: Progress) -> Iterator[str]:
    """What has become of each entry of a plan."""
    from minikafka.client.reassigning.progress import State

    for tp, state in progress.partitions.items():
        if state is State.COMPLETE:
            yield f"Reassignment of partition {tp} is completed."
        elif state is State.IN_PROGRESS:
            yield f"Reassignment of partition {tp} is still in progress."
        else:
            sets = f"replica set is {ids(progress.replicas[tp])} rather than {ids(plan[tp].replicas)}"
            yield f"There is no active reassignment of partition {tp}, but {sets}."
    for move, state in progress.directories.items():
        replica = f"{move.tp}-{move.broker}"
        if state is State.COMPLETE:
            yield f"Reassignment of replica {replica} completed successfully."
        elif state is State.IN_PROGRESS:
            yield f"Reassignment of replica {replica} is still in progress."
        else:
            yield f"Partition {move.tp} on broker {move.broker} is not being moved to log dir {move.path}."


def progress_as_dict(plan: Plan, progress: Progress, cleared: Throttle) -> dict[str, Any]:
    """The same for scripts, with the throttles that were removed. A state is complete, in_progress or different."""
    return {
        "complete": progress.is_complete,
        "partitions": [
            _partition(tp)
            | {"state": state.name.lower(), "replicas": progress.replicas[tp], "wanted": plan[tp].replicas}
            for tp, state in progress.partitions.items()
        ],
        "directories": [
            _partition(move.tp) | {"broker": move.broker, "wanted": move.path, "state": state.name.lower()}
            for move, state in progress.directories.items()
        ],
        "cleared_throttles": {"brokers": list(cleared.brokers), "topics": list(cleared.topics)},
    }


def plan_as_dict(plan: Plan) -> dict[str, Any]:
    """A plan as its file holds it."""
    import json

    from minikafka.client.reassigning.plan import to_json

    written: dict[str, Any] = json.loads(to_json(plan))
    return written


def print_cleared(removed: Throttle) -> None:
    """Say which throttles were removed, as Kafka's tool does."""
    if removed.brokers:
        print_line(f"Clearing broker-level throttles on brokers {ids(removed.brokers)}")
    if removed.topics:
        print_line(f"Clearing topic-level throttles on topics {','.join(removed.topics)}")


def names(partitions: Iterable[TopicPartition], separator: str = ",") -> str:
    """Partitions in order, as one word."""
    return separator.join(map(str, sorted(partitions)))


def ids(brokers: Iterable[int]) -> str:
    """``1,2,3``."""
    return ",".join(map(str, brokers))


def _partition(tp: TopicPartition) -> dict[str, Any]:
    return {"topic": tp.topic, "partition": tp.partition}
