"""The position of a stream, as JSON for Spark's checkpoint (pure).

Spark's own connector writes ``{"topic":{"0":123,"1":45}}``. Further values have names that no topic can have:

- ``@ids``: the topics' ids. A topic that is deleted and created again has another id, and unrelated offsets.
- ``@epochs``: the leader epoch at each offset. An offset whose epoch ended before it was truncated by an unclean
  election.
- ``@from``: the first offsets of this batch in partitions that it does not continue: all of them in the first batch,
  later new ones and those that lost records. It is stored before the batch is read. So a repetition by another process
  reads the same batch.

Spark asks for the beginning of a new stream before its first write, and asks another process again after a crash: the
end of a log may have moved. So the answer is :data:`UNRESOLVED`, and the first batch, perhaps an empty one, has its
beginning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self, TypeAlias

from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.options.kinds import NOTES

Offsets: TypeAlias = Mapping[TopicPartition, OffsetAndEpoch]
Json: TypeAlias = dict[str, Any]

IDS: Final = "@ids"
EPOCHS: Final = "@epochs"
FROM: Final = "@from"
UNRESOLVED: Final[Json] = {"@start": "unresolved"}


@dataclass(frozen=True, slots=True)
class StreamOffset:
    """The ends of a batch, its beginnings in partitions that it does not continue, and the ids of the topics.

    A topic may be without an id: checkpoints of Spark's own connector have none.
    """

    ends: Offsets
    begins: Offsets = field(default_factory=dict)
    topic_ids: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> Json:
        """Equal offsets give equal text: Spark compares the texts to find new data."""
        found = _to_json(self.ends)
        if self.begins:
            found[FROM] = _to_json(self.begins)
        if self.topic_ids:
            found[IDS] = dict(sorted(self.topic_ids.items()))
        return found

    @classmethod
    def from_json(cls, json: Json) -> Self:
        """Parse it. Raises ValueError for a text of another source."""
        if json == UNRESOLVED:
            raise ValueError("the stream has not begun")
        return cls(_from_json(json), _from_json(json.get(FROM, {})), _ids(json))


def begins_of(start: Json, end: StreamOffset) -> dict[TopicPartition, OffsetAndEpoch]:
    """The first offsets of the batch from ``start`` to ``end``."""
    continued = {} if start == UNRESOLVED else StreamOffset.from_json(start).ends
    return {**continued, **end.begins}


def _ids(json: Json) -> dict[str, str]:
    ids = json.get(IDS, {})
    if not isinstance(ids, dict) or not all(isinstance(topic_id, str) for topic_id in ids.values()):
        raise _not_ours(json)
    return ids


def _to_json(offsets: Offsets) -> Json:
    found: Json = {}
    epochs: Json = {}
    for (topic, partition), (offset, epoch) in sorted(offsets.items()):
        found.setdefault(topic, {})[str(partition)] = offset
        if epoch != NO_EPOCH:
            epochs.setdefault(topic, {})[str(partition)] = epoch
    return found | ({EPOCHS: epochs} if epochs else {})


def _from_json(json: Json) -> dict[TopicPartition, OffsetAndEpoch]:
    epochs = json.get(EPOCHS, {})
    try:
        return {
            TopicPartition(topic, int(index)): OffsetAndEpoch(
                int(offset), int(epochs.get(topic, {}).get(index, NO_EPOCH))
            )
            for topic, partitions in json.items()
            if not topic.startswith(NOTES)
            for index, offset in partitions.items()
        }
    except (AttributeError, TypeError, ValueError):
        raise _not_ours(json) from None


def _not_ours(json: Json) -> ValueError:
    return ValueError(f"the checkpoint holds an offset that is not of this source: {json}")
