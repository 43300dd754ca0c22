"""A lake: a Delta table of the records of topics, which knows the offsets that it has.

The table's log is the ledger. Each partition of a topic has a transaction id ``minikafka/CLUSTER/TOPIC_ID/PARTITION``;
its version is the end of the archived offsets. A commit has the new files and the new ends together: one or the other
is never there alone. A second id, with ``/epoch`` behind it, has the leader epoch of the end.

Two archives of the same partitions cannot both commit: a commit is refused when another one changed a transaction id
of its own since the table was read. So there is no lock. A commit whose answer was lost may be refused by itself:
:meth:`Lake.append` looks whether its files are in the table.

A file that no commit names is no part of the table: a killed job leaves some. They are removed after a day, and so are
files that were replaced or dropped: a reader has a day to end.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from deltalake import CommitProperties, DeltaTable, Field, Schema, Transaction, WriterProperties
from deltalake.schema import PrimitiveType
from deltalake.transaction import AddAction, create_table_with_add_actions

from minikafka.model import NO_EPOCH, OffsetAndEpoch, TopicPartition
from minikafka.spark.pipelines.archive.places import (
    AnotherArchiveError,
    check_is_new,
    is_lake,
    is_local,
    is_of_old_format,
    location,
    readable_errors,
)
from minikafka.spark.pipelines.archive.planning import TARGET_BYTES, days_to_compact
from minikafka.spark.pipelines.archive.writing import SCHEMA, DataFile, files_of, sync
from minikafka.spark.pipelines.running import PipelineError, few

DIVERGED: Final = "diverged"
"""Column of a lake in which divergence was marked: true for records that are no longer in their topic."""

_PARTITIONED_BY: Final = ["topic", "date"]
_SCHEMA: Final = Schema.from_arrow(pa.schema([*SCHEMA, *((name, pa.string()) for name in _PARTITIONED_BY)]))
_PROPERTIES: Final = {
    "delta.dataSkippingStatsColumns": "partition,offset,timestamp",
    "delta.deletedFileRetentionDuration": "interval 1 day",
    "delta.logRetentionDuration": "interval 7 days",
    "delta.targetFileSize": str(TARGET_BYTES),
}
_NAME: Final = "minikafka"
_NO_TOPIC: Final = "__HIVE_DEFAULT_PARTITION__"  # in a path, for readers: null
_WAITS_S: Final = (0.2, 1.0, 5.0)


@dataclass(frozen=True, slots=True)
class Content:
    """The files of a topic in a lake."""

    records: int = 0
    files: int = 0
    size_bytes: int = 0
    first_date: str = ""
    last_date: str = ""


class Lake:
    """A lake, at the version of the last look or commit."""

    def __init__(self, lake: str, table: DeltaTable) -> None:
        self.location = lake
        self._table = table
        self.cluster_id, self.topic_ids = _identity(lake, table)
        self.ends = self._read_ends()

    @classmethod
    def open(cls, to: str | Path) -> Lake:
        """An existing lake. Raises PipelineError if there is none."""
        lake = location(to)
        if not is_lake(lake):
            if is_of_old_format(lake):
                raise PipelineError(
                    f"{lake} is a lake of an earlier minikafka; take it over with: minikafka pipeline take-over {lake}"
                )
            raise PipelineError(f"{lake} is not a lake; create one with: minikafka pipeline archive TOPIC --to {lake}")
        with readable_errors(lake):
            return cls(lake, DeltaTable(lake))

    @classmethod
    def opened(cls, to: str | Path, cluster_id: str, topic_ids: Mapping[str, str], *, add: bool = False) -> Lake:
        """The lake of a cluster's topics; created if it is missing. Raises PipelineError if it is another's."""
        lake = location(to)
        if not is_lake(lake) and not is_of_old_format(lake):
            check_is_new(lake)
            create(lake, cluster_id, topic_ids)
        found = cls.open(lake)
        if found.cluster_id != cluster_id:
            raise PipelineError(
                f"{lake} holds topics of the cluster {found.cluster_id}, and this is {cluster_id}; "
                f"choose another directory"
            )
        found.take_in(topic_ids, add=add)
        return found

    # -- topics -----------------------------------------------------------------------------------------------------

    def take_in(self, topic_ids: Mapping[str, str], *, add: bool = False) -> None:
        """Check that these topics belong to the lake; ``add`` adds new ones. Raises PipelineError."""
        check_names(topic_ids)
        for topic, topic_id in topic_ids.items():
            if topic not in self.topic_ids and not add:
                raise PipelineError(
                    f"{self.location} is the lake of {', '.join(sorted(self.topic_ids))}; "
                    f"add {topic} with --add, or choose another directory"
                )
            if self.topic_ids.get(topic, topic_id) != topic_id:
                raise PipelineError(
                    f"{topic} was deleted and created again since it was archived, and its offsets begin again; "
                    f"archive it into another directory"
                )
        if topic_ids.keys() - self.topic_ids.keys():
            both = {**self.topic_ids, **topic_ids}
            with self._committing():
                self._table.alter.set_table_description(_described(self.cluster_id, both))
            self.topic_ids = both

    def chosen(self, topics: Sequence[str]) -> list[str]:
        """These topics, or all. Raises PipelineError for one that is not in the lake."""
        if unknown := sorted(set(topics) - self.topic_ids.keys()):
            raise PipelineError(
                f"{self.location} holds no topic {', '.join(unknown)}; "
                f"it is the lake of {', '.join(sorted(self.topic_ids))}"
            )
        return sorted(topics) or sorted(self.topic_ids)

    def content(self, topic: str) -> Content:
        """The present files of a topic."""
        files = self._files().filter(pc.field("partition.topic") == topic)
        if not files.num_rows:
            return Content()
        dates = pc.min_max(files["partition.date"]).as_py()
        rows, size_bytes = (pc.sum(files[name]).as_py() for name in ("num_records", "size_bytes"))
        return Content(rows, files.num_rows, size_bytes, dates["min"], dates["max"])

    # -- commits ----------------------------------------------------------------------------------------------------

    def append(self, ends: Mapping[TopicPartition, OffsetAndEpoch], files: Sequence[DataFile]) -> None:
        """Commit the records between the present ends and these: ``files`` has them all.

        Raises AnotherArchiveError if another archive committed some of them, and PipelineError if a file is gone.
        """
        self._check_there(files)
        version = self._table.version()
        try:
            with readable_errors(self.location):
                self._table.create_write_transaction(
                    [_add_action(file) for file in files],
                    "append",
                    self._table.schema(),
                    _PARTITIONED_BY,
                    commit_properties=self._properties(ends),
                )
        except PipelineError:
            self.look_again()
            if not self._has(ends, files):
                raise
            return
        with readable_errors(self.location):
            self._table.update_incremental()
            if is_local(self.location):  # the library does not
                log = os.path.join(self.location, "_delta_log")
                new = range(version + 1, self._table.version() + 1)
                sync(*(os.path.join(log, f"{number:020d}.json") for number in new), log)
        if self._table.version() == version + 1:
            self.ends = {**self.ends, **ends}
        else:  # others have committed, too
            self.ends = self._read_ends()

    def compact(self, topics: Sequence[str], files_min: int) -> int:
        """Put small files of a day together where there are ``files_min`` of them; the number that is gone."""
        sizes: dict[tuple[str, str], list[int]] = {}
        for topic, date, size_bytes in self._rows("partition.topic", "partition.date", "size_bytes"):
            if topic in topics:
                sizes.setdefault((topic, date), []).append(size_bytes)
        removed = 0
        for (topic, date), target_bytes in days_to_compact(sizes, files_min=files_min).items():
            where = [("topic", "=", topic), ("date", "=", date)]
            with suppress(AnotherArchiveError), self._committing():
                done = self._table.optimize.compact(where, target_size=target_bytes, max_concurrent_tasks=1)
                removed += done["numFilesRemoved"]
        return removed

    def drop_before(self, day: str, topics: Sequence[str]) -> int:
        """Remove the days before, whether their files are there or not; the number of files. Their offsets stay
        archived."""
        files = len(self._table.file_uris())
        names = ", ".join(f"'{topic}'" for topic in topics)
        with self._committing():
            self._table.delete(f"topic IN ({names}) AND date < '{day}'")
        return files - len(self._table.file_uris())

    def mark(self, tp: TopicPartition, agreed: OffsetAndEpoch) -> None:
        """Mark the archived records from an offset on as diverged: their topic has others from there on, or none.

        They are archived again from there. Both changes are one commit.
        """
        if DIVERGED not in [field.name for field in self._table.schema().fields]:
            with self._committing():
                self._table.alter.add_columns(Field(DIVERGED, PrimitiveType("boolean")))
        with self._committing():
            self._table.update(
                {DIVERGED: "true"},
                writer_properties=WriterProperties(compression="ZSTD"),
                predicate=f"topic = '{tp.topic}' AND partition = {tp.partition} AND \"offset\" >= {agreed.offset}",
                commit_properties=self._properties({tp: agreed}),
            )
        if self.ends[tp] != agreed:  # no record of them was in the table, so there was no commit
            self.append({tp: agreed}, ())

    def check_files(self) -> None:
        """Raise PipelineError if a file of the table is missing."""
        with readable_errors(self.location):
            missing = self._table.repair(dry_run=True)["files_removed"]
        if missing:
            raise PipelineError(
                f"{self.location} is damaged: {few(missing)} is missing; put it back, or archive into another "
                f"directory; if old days were removed on purpose, --drop-before DATE lets the lake forget them"
            )

    def tidy(self) -> None:
        """Remove files that no commit names, or names no more, once they are a day old."""
        with self._committing():
            if self._table.vacuum(full=True):
                self._table.vacuum(full=True, dry_run=False)

    def look_again(self) -> None:
        """Go to the newest version. A store that does not answer is asked again."""
        for wait_s in (*_WAITS_S, None):
            try:
                with readable_errors(self.location):
                    self._table.update_incremental()
                    self.cluster_id, self.topic_ids = _identity(self.location, self._table)
                    self.ends = self._read_ends()
                return
            except PipelineError:
                if wait_s is None:
                    raise
                time.sleep(wait_s)

    # -- readers ----------------------------------------------------------------------------------------------------

    def files(self, topics: Sequence[str]) -> list[str]:
        """The paths of these topics' files, below the lake."""
        return [path for path, topic in self._rows("path", "partition.topic") if topic in topics]

    def arrow_schema(self) -> pa.Schema:
        """The columns, with the partition columns."""
        return pa.schema(self._table.schema().to_arrow())

    # -- inside -----------------------------------------------------------------------------------------------------

    @contextmanager
    def _committing(self) -> Iterator[None]:
        """For operations of the library, after which the table is at a version of theirs or later."""
        try:
            with readable_errors(self.location):
                yield
        finally:
            self.look_again()

    def _properties(self, ends: Mapping[TopicPartition, OffsetAndEpoch]) -> CommitProperties:
        return _properties(self.cluster_id, self.topic_ids, ends)

    def _read_ends(self) -> dict[TopicPartition, OffsetAndEpoch]:
        ends = {}
        for topic in self.topic_ids:
            for partition in count():
                tp = TopicPartition(topic, partition)
                name = app_id(self.cluster_id, self.topic_ids[topic], partition)
                offset = self._table.transaction_version(name)
                if offset is None:
                    break
                epoch = self._table.transaction_version(f"{name}/epoch")
                ends[tp] = OffsetAndEpoch(offset, NO_EPOCH if epoch is None else epoch)
        return ends

    def _check_there(self, files: Sequence[DataFile]) -> None:
        """A file that no commit names yet may have been removed: by somebody's vacuum, or after a jump of the clock."""
        with readable_errors(self.location):
            found = files_of(self.location).get_file_info([file.path for file in files])
        if gone := [each.path for each, file in zip(found, files, strict=True) if each.size != file.size_bytes]:
            raise PipelineError(f"{self.location}: {few(gone)} was removed before it was committed")

    def _has(self, ends: Mapping[TopicPartition, OffsetAndEpoch], files: Sequence[DataFile]) -> bool:
        """True when this very commit is in the table."""
        paths = {path for (path,) in self._rows("path")}
        return all(self.ends.get(tp) == end for tp, end in ends.items()) and {file.path for file in files} <= paths

    def _files(self) -> Any:
        return pa.table(self._table.get_add_actions(flatten=True))

    def _rows(self, *names: str) -> Iterator[tuple[Any, ...]]:
        files = self._files()
        return zip(*(files[name].to_pylist() for name in names), strict=True)


def create(
    lake: str,
    cluster_id: str,
    topic_ids: Mapping[str, str],
    ends: Mapping[TopicPartition, OffsetAndEpoch] = MappingProxyType({}),
    files: Sequence[DataFile] = (),
) -> None:
    """Create the table, with these ends and files. Raises PipelineError if there is something else."""
    check_names(topic_ids)
    with readable_errors(lake):
        create_table_with_add_actions(
            lake,
            _SCHEMA,
            [_add_action(file) for file in files],
            partition_by=_PARTITIONED_BY,
            name=_NAME,
            description=_described(cluster_id, topic_ids),
            configuration=_PROPERTIES,
            commit_properties=_properties(cluster_id, topic_ids, ends),
        )


def check_names(topics: Iterable[str]) -> None:
    """Raise PipelineError for the name that readers take for a missing one."""
    if _NO_TOPIC in topics:
        raise PipelineError(f"cannot archive {_NO_TOPIC}: readers of a lake take this name for a missing one")


def app_id(cluster_id: str, topic_id: str, partition: int) -> str:
    """The transaction id of a partition."""
    return f"minikafka/{cluster_id}/{topic_id}/{partition}"


def _identity(lake: str, table: DeltaTable) -> tuple[str, dict[str, str]]:
    about = table.metadata()
    if about.name != _NAME:
        raise PipelineError(f"{lake} is a Delta table, but no lake of minikafka; choose another directory")
    try:
        fields = json.loads(about.description)
        return fields["cluster.id"], fields["topic.ids"]
    except (TypeError, ValueError, KeyError):
        raise PipelineError(
            f"{lake} is no lake of minikafka: its table's description, which names cluster and topics, was replaced"
        ) from None


def _described(cluster_id: str, topic_ids: Mapping[str, str]) -> str:
    return json.dumps({"cluster.id": cluster_id, "topic.ids": topic_ids})


def _add_action(file: DataFile) -> AddAction:
    where = {"topic": file.topic, "date": file.date}
    return AddAction(file.path, file.size_bytes, where, int(time.time() * 1000), True, json.dumps(file.statistics()))


def _properties(
    cluster_id: str, topic_ids: Mapping[str, str], ends: Mapping[TopicPartition, OffsetAndEpoch]
) -> CommitProperties:
    """A commit's ends of partitions, by their transaction ids."""
    transactions = []
    for tp, end in ends.items():
        name = app_id(cluster_id, topic_ids[tp.topic], tp.partition)
        transactions += [Transaction(name, end.offset), Transaction(f"{name}/epoch", end.epoch)]
    return CommitProperties(app_transactions=transactions)
