"""Commits, and crashes between any two of their steps: a process really ends there, without a word."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

import pyarrow as pa
import pytest

from minikafka.model import TopicPartition
from minikafka.spark.pipelines.archive import lake as lake_module
from minikafka.spark.pipelines.archive import layout
from minikafka.spark.pipelines.archive.lake import Lake
from minikafka.spark.pipelines.archive.layout import DataFile
from minikafka.spark.pipelines.archive.state import local_directory, read_identity, read_manifest
from minikafka.spark.pipelines.archive.writing import FilesWriter, merge
from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.topics import Extent

Rows = Callable[..., pa.RecordBatch]
Plain = Callable[[Path], dict[TopicPartition, list[int]]]
A, B = TopicPartition("orders", 0), TopicPartition("orders", 1)
KILLED = 9
STEPS = ("link", "rename", "replace", "unlink", "mkdir", "rmdir")


@contextmanager
def opened(directory: Path) -> Iterator[Lake]:
    with Lake.opened(directory, cluster_id="here") as lake:
        lake.take_in({"orders": "id-1"})
        yield lake


def append(lake: Lake, rows: Rows, start: int, end: int) -> None:
    """Offsets of two partitions, each on two days."""
    with lake.staging() as directory:
        writer = FilesWriter(directory)
        for tp in (A, B):
            writer.write(rows(tp.topic, tp.partition, range(start, end), [0, 1]))
        lake.append({tp: Extent(start, end) for tp in (A, B)}, writer.close().files)


def compact(lake: Lake) -> None:
    """All files of partition 0 of each day together."""
    with lake.staging() as directory:
        replaced = []
        for date in ("1970-01-01", "1970-01-02"):
            files = sorted(f for f in lake.manifest.files.values() if f.partition == 0 and f.date == date)
            merged = merge(lake.directory, [file.path for file in files], "orders", directory)
            replaced.append((files, merged))
        lake.replace(replaced)


def test_a_lake_goes_on_where_it_was(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    with opened(tmp_path / "lake") as lake:
        append(lake, rows, 0, 10)
    with opened(tmp_path / "lake") as lake:
        assert lake.manifest.ends == {A: 10, B: 10}
        append(lake, rows, 10, 20)
    seen = plain(tmp_path / "lake")
    assert {tp: sorted(offsets) for tp, offsets in seen.items()} == {A: list(range(20)), B: list(range(20))}
    assert not list((tmp_path / "lake" / layout.STAGING).iterdir())


def test_small_files_give_way(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    with opened(tmp_path / "lake") as lake:
        for start in range(0, 30, 10):
            append(lake, rows, start, start + 10)
        before = plain(lake.directory)
        compact(lake)
        assert len(list(lake.directory.glob("topic=*/date=*/00000-*"))) == 2
        assert len(list(lake.directory.glob("topic=*/date=*/00001-*"))) == 6
    after = plain(tmp_path / "lake")
    assert {tp: sorted(offsets) for tp, offsets in after.items()} == {w: sorted(o) for w, o in before.items()}
    assert read_manifest(tmp_path / "lake").files.keys() == {
        str(path.relative_to(tmp_path / "lake")) for path in (tmp_path / "lake").glob("topic=*/date=*/*")
    }


def die_at_step(step: int, work: Callable[[], None]) -> bool:
    """Do work in another process that ends without a word before its step-th change of files; whether it did."""
    child = os.fork()
    if child == 0:
        numbers = count()

        def dying(change: Callable[..., object]) -> Callable[..., object]:
            def wrapped(*args: object, **named: object) -> object:
                if next(numbers) == step:
                    os._exit(KILLED)
                return change(*args, **named)

            return wrapped

        for name in STEPS:
            setattr(os, name, dying(getattr(os, name)))
        lake_module.exchange = dying(lake_module.exchange)  # type: ignore[assignment]
        try:
            work()
        finally:
            os._exit(0)
    _, status = os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(status) == KILLED


@pytest.mark.parametrize("can_exchange", [True, False], ids=["exchange", "no exchange"])
@pytest.mark.parametrize("work", ["append", "compact"])
def test_a_crash_between_any_two_steps(
    tmp_path: Path, rows: Rows, plain: Plain, monkeypatch: pytest.MonkeyPatch, work: str, can_exchange: bool
) -> None:
    """Before anybody gets it well, a plain reader sees no offset twice; afterwards there is all or nothing of it."""
    if not can_exchange:
        monkeypatch.setattr(lake_module, "exchange", lambda one, other: False)
    monkeypatch.setattr(lake_module, "COMMITS_PER_SNAPSHOT", 3)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)  # no power is lost here
    template = tmp_path / "template"
    with opened(template) as lake:
        append(lake, rows, 0, 10)
        append(lake, rows, 10, 20)
    held = {tp: list(range(20)) for tp in (A, B)}
    outcomes = set()
    for step in count():
        directory = tmp_path / "lake"
        shutil.copytree(template, directory)
        with opened(directory) as lake:
            if work == "append":
                did_die = die_at_step(step, lambda lake=lake: append(lake, rows, 20, 30))
            else:
                did_die = die_at_step(step, lambda lake=lake: compact(lake))
        seen = plain(directory)
        assert all(len(set(offsets)) == len(offsets) for offsets in seen.values()), f"twice after step {step}"
        if can_exchange:
            assert all(set(held[tp]) <= set(seen[tp]) for tp in held), f"missing after step {step}"
        with opened(directory) as lake:
            ends = set(lake.manifest.ends.values())
            assert len(ends) == 1
            outcomes.add((ends.pop(), len(lake.manifest.files)))
            seen = plain(directory)
            for tp, end in lake.manifest.ends.items():
                assert sorted(seen[tp]) == list(range(end)), f"after step {step}"
            append(lake, rows, lake.manifest.ends[A], 40)
            assert not list((directory / layout.STAGING).iterdir())
        in_order = {tp: sorted(offsets) for tp, offsets in plain(directory).items()}
        assert in_order == {tp: list(range(40)) for tp in (A, B)}
        shutil.rmtree(directory)
        if not did_die:
            break
    assert step > 10
    assert outcomes == ({(20, 8), (30, 12)} if work == "append" else {(20, 8), (20, 6)})


def is_of_the_first_day(file: DataFile) -> bool:
    return file.date < "1970-01-02"


def drop(directory: Path) -> int:
    with Lake.opened(directory, cluster_id="here", is_dropped=is_of_the_first_day) as lake:
        return lake.dropped_files


def test_a_crash_while_days_are_dropped(
    tmp_path: Path, rows: Rows, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A plain reader sees the whole day or nothing of it, and nothing is archived a second time."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)
    directory, outcomes = tmp_path / "lake", set()
    for step in count():
        with opened(directory) as lake:
            append(lake, rows, 0, 10)
        did_die = die_at_step(step, lambda: drop(directory) and None)
        assert plain(directory)[A] in ([0, 2, 4, 6, 8, 1, 3, 5, 7, 9], [1, 3, 5, 7, 9])
        with opened(directory) as lake:
            assert lake.manifest.ends == {A: 10, B: 10}
            outcomes.add(tuple(sorted(plain(directory)[A])))
        shutil.rmtree(directory)
        if not did_die:
            break
    assert step > 4
    assert outcomes == {tuple(range(10)), (1, 3, 5, 7, 9)}


def test_days_that_are_dropped_by_hand_are_forgotten_when_that_is_said(
    tmp_path: Path, rows: Rows, plain: Plain
) -> None:
    directory = tmp_path / "lake"
    with opened(directory) as lake:
        append(lake, rows, 0, 10)
    shutil.rmtree(directory / "topic=orders" / "date=1970-01-01")
    with pytest.raises(PipelineError, match="if old days were removed on purpose, --drop-before"), opened(directory):
        pass
    assert drop(directory) == 2
    assert drop(directory) == 0
    with opened(directory) as lake:
        append(lake, rows, 10, 20)
    next(iter(directory.glob("topic=*/date=1970-01-02/*"))).unlink()
    with pytest.raises(PipelineError, match="is missing; put it back"):
        drop(directory)


def test_of_files_that_were_put_together_and_removed_by_hand(tmp_path: Path, rows: Rows, plain: Plain) -> None:
    directory = tmp_path / "lake"
    with opened(directory) as lake:
        append(lake, rows, 0, 10)
        append(lake, rows, 10, 20)
        compact(lake)
    shutil.rmtree(directory / "topic=orders" / "date=1970-01-01")
    with pytest.raises(PipelineError, match="are gone; put it back"), opened(directory):
        pass
    drop(directory)
    assert sorted(plain(directory)[A]) == list(range(1, 20, 2))
    assert not list((directory / layout.STAGING).iterdir())


def test_an_interruption_while_publishing_loses_nothing(
    tmp_path: Path, rows: Rows, plain: Plain, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*paths: object) -> None:
        raise KeyboardInterrupt

    with opened(tmp_path / "lake") as lake, monkeypatch.context() as patch:
        patch.setattr(os, "rename", interrupted)
        with pytest.raises(KeyboardInterrupt):
            append(lake, rows, 0, 10)
    with opened(tmp_path / "lake") as lake:
        assert lake.manifest.ends == {A: 10, B: 10}
    assert {tp: sorted(offsets) for tp, offsets in plain(tmp_path / "lake").items()} == {
        tp: list(range(10)) for tp in (A, B)
    }


def test_a_job_that_fails_leaves_nothing(tmp_path: Path, rows: Rows) -> None:
    with opened(tmp_path / "lake") as lake:
        with pytest.raises(AssertionError, match="is before"), lake.staging() as directory:
            _write_half_and_fail(directory)
        assert not list((tmp_path / "lake" / layout.STAGING).iterdir())


def _write_half_and_fail(directory: Path) -> None:
    (directory / "half.part").write_text("x")
    raise AssertionError("orders-0: offset 3 is before 4")


def test_snapshots_take_the_place_of_commits(tmp_path: Path, rows: Rows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lake_module, "COMMITS_PER_SNAPSHOT", 3)
    with opened(tmp_path / "lake") as lake:
        for start in range(8):
            append(lake, rows, start, start + 1)
        manifest = lake.manifest
    names = sorted(path.name for path in (tmp_path / "lake" / layout.COMMITS).iterdir())
    expected = [layout.commit_name(6), layout.snapshot_name(6), layout.commit_name(7), layout.commit_name(8)]
    assert names == expected
    assert read_manifest(tmp_path / "lake") == manifest


def test_one_writes_at_a_time(tmp_path: Path) -> None:
    with (
        opened(tmp_path / "lake"),
        pytest.raises(PipelineError, match="another archive writes to"),
        opened(tmp_path / "lake"),
    ):
        pass
    with opened(tmp_path / "lake"):
        pass


def test_other_clusters_and_topics_are_refused(tmp_path: Path) -> None:
    directory = tmp_path / "lake"
    with opened(directory) as lake:
        with pytest.raises(PipelineError, match="is the lake of orders; add payments with --add"):
            lake.take_in({"payments": "id-2"})
        with pytest.raises(PipelineError, match="orders was deleted and created again"):
            lake.take_in({"orders": "id-9"})
        lake.take_in({"payments": "id-2"}, add=True)
    assert read_identity(directory).topic_ids == {"orders": "id-1", "payments": "id-2"}
    with pytest.raises(PipelineError, match="holds topics of the cluster here, and this is there"):
        Lake.opened(directory, cluster_id="there").__enter__()


def test_directories_that_are_no_lake(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    with pytest.raises(PipelineError, match="is neither empty nor a lake"), opened(tmp_path):
        pass
    with pytest.raises(PipelineError, match="is a file; choose a directory"), opened(tmp_path / "file"):
        pass
    with pytest.raises(PipelineError, match="s3a://bucket/lake is not a directory"):
        local_directory("s3a://bucket/lake")
    with pytest.raises(PipelineError, match="is not a lake; create one with"):
        read_identity(tmp_path)
    (tmp_path / "file").touch()
    with pytest.raises(PipelineError, match="file is not a lake; create one with"):
        read_identity(tmp_path / "file")
    assert local_directory("file:///tmp/lake") == Path("/tmp/lake").resolve()


def test_files_that_are_not_those_of_the_commits(tmp_path: Path, rows: Rows) -> None:
    """As in a copy that was made while somebody wrote, or put files together."""
    directory = tmp_path / "lake"
    with opened(directory) as lake:
        for start in (0, 10):
            append(lake, rows, start, start + 10)
    first = min(directory.glob("topic=*/date=*/*"))
    for name in ("_SUCCESS", ".crc"):  # which readers leave out
        first.with_name(name).touch()
    copy = first.with_name(first.name.replace("00000-", "00007-"))
    shutil.copy(first, copy)
    with pytest.raises(PipelineError, match=rf"contains topic=orders/date=1970-01-01/{copy.name}, unknown to every"):
        Lake.opened(directory, cluster_id="here").__enter__()
    copy.unlink()
    os.truncate(first, first.stat().st_size - 1)
    with pytest.raises(PipelineError, match=f"{first.name} has a wrong size; put it back"):
        Lake.opened(directory, cluster_id="here").__enter__()
    first.unlink()
    with pytest.raises(PipelineError, match=f"{first.name} is missing; put it back"):
        Lake.opened(directory, cluster_id="here").__enter__()


def test_a_lake_that_does_not_say_whose_records_it_holds_is_refused(tmp_path: Path, rows: Rows) -> None:
    """Or those of another cluster, or of a topic that was made anew, would come behind them."""
    directory = tmp_path / "lake"
    with opened(directory) as lake:
        append(lake, rows, 0, 10)
    (directory / layout.IDENTITY).unlink()
    with pytest.raises(PipelineError, match=f"is damaged: {layout.IDENTITY} is missing; put it back"):
        Lake.opened(directory, cluster_id="there").__enter__()


def test_a_name_that_readers_take_for_none_is_refused(tmp_path: Path) -> None:
    with (
        Lake.opened(tmp_path / "lake", cluster_id="here") as lake,
        pytest.raises(PipelineError, match="cannot archive __HIVE_DEFAULT_PARTITION__"),
    ):
        lake.take_in({"__HIVE_DEFAULT_PARTITION__": "id-1"})


def test_damage_is_told(tmp_path: Path, rows: Rows) -> None:
    directory = tmp_path / "lake"
    with opened(directory) as lake:
        append(lake, rows, 0, 10)
        append(lake, rows, 10, 20)
    last = directory / layout.COMMITS / layout.commit_name(2)
    text = last.read_text()
    last.write_text(text[:50])
    with pytest.raises(PipelineError, match=f"{last.name} is damaged"):
        read_manifest(directory)
    last.write_text(text)
    directory.joinpath(json.loads(text)["added"][0][-1]).unlink(missing_ok=True)
    next(iter(directory.glob("topic=orders/date=*/*00000000000000000010-*"))).unlink()
    with pytest.raises(PipelineError, match="of commit 2 is missing"), opened(directory):
        pass
    (directory / layout.COMMITS / layout.commit_name(1)).unlink()
    with pytest.raises(PipelineError, match="commit 2 does not follow 0"):
        read_manifest(directory)
