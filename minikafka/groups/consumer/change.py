"""What one step changes in a consumer group: each row at once, and all records in one write at the end.

The answer waits for that write (row G1). A step that changes nothing waits for the writes of the group that are under
way: what it tells may come from them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from minikafka.groups.consumer.group import ConsumerGroup
from minikafka.groups.consumer.records import ConsumerGroupRecord, GroupEpoch, Kind, Value
from minikafka.groups.group import Group
from minikafka.groups.records import GroupMetadataRecord, GroupRecord
from minikafka.groups.shard import Shard
from minikafka.groups.writes import Done


class Change:
    """Of one group, in one step."""

    def __init__(self, shard: Shard, group: Group, records: Collection[GroupRecord] = ()) -> None:
        """``records``: of the classic group that was there before."""
        self.shard = shard
        self.group = group
        self.consumer = group.consumer or ConsumerGroup(group.group_id)
        group.consumer = self.consumer
        self.undo: Callable[[], None] | None = None
        """What else is to be taken back if the write fails."""
        self.followers: list[Done] = []
        """Of others who wait for the write."""
        self._records: list[GroupRecord] = [*records]

    def add(self, record: GroupMetadataRecord) -> None:
        """Write a record of a classic group."""
        self._records.append(record)

    def put(self, kind: Kind, name: str, value: Value | None) -> None:
        """Write a row, or remove it."""
        record = ConsumerGroupRecord(kind, self.group.group_id, name, value)
        self.consumer.apply(record)
        self._records.append(record)

    def raise_epoch(self) -> None:
        """Begin a new group epoch, with the topics that there are now."""
        self._put_epoch(self._hash())

    def maybe_raise_epoch(self) -> None:
        """Begin a new group epoch if topics of the group are other ones than in this."""
        metadata = self._hash()
        if metadata != self.consumer.metadata_hash:
            self._put_epoch(metadata)

    def _hash(self) -> int:
        self.consumer.topics_version = self.shard.topics_version
        return self.shard.topic_hashes.of(self.consumer.subscribed_topics())

    def _put_epoch(self, metadata: int) -> None:
        self.put(Kind.GROUP, "", GroupEpoch(self.consumer.epoch + 1, metadata))

    def remove_member(self, member_id: str) -> None:
        """Remove its rows, and end its session."""
        for kind, table in (
            (Kind.CURRENT, self.consumer.currents),
            (Kind.TARGET, self.consumer.targets),
            (Kind.MEMBER, self.consumer.subscriptions),
        ):
            if member_id in table:
                self.put(kind, member_id, None)
        self.shard.end_consumer_session(self.group, member_id)

    def remove_rows(self) -> None:
        """Remove all rows: the group is gone."""
        for record in self.consumer.tombstones():
            self.put(record.kind, record.name, None)

    def drop_unused_regexes(self) -> None:
        """Remove the regular expressions that no member has any more."""
        used = self.consumer.subscribed.regexes
        for regex in [regex for regex in self.consumer.regexes if regex not in used]:
            self.put(Kind.REGULAR_EXPRESSION, regex, None)

    def finish(self, done: Done) -> None:
        """Write the records; ``done`` runs when they, and all earlier ones of the group, are committed."""
        undo, self.undo = self.undo, None  # it may have the change: no circle is to be left
        if self._records:
            self.shard.match_sessions(self.group)
            self.shard.write(self.group, self._records, done, undo=undo, followers=self.followers)
        else:
            self.shard.after_writes(self.group, done)
        self.shard.maybe_forget(self.group)
