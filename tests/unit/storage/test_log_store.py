from __future__ import annotations

import errno
from collections.abc import Callable, Iterator
from pathlib import Path
from shutil import rmtree
from uuid import UUID, uuid4

import pytest
from at_once import compact, complete_move, delete_old_segments, reconcile
from storage_batches import NOW_MS, all_values, append
from store_checkpoints import write_checkpoints

from minikafka.errors import ErrorCode, KafkaError
from minikafka.model import TopicPartition
from minikafka.records.batch import Buffer
from minikafka.storage.config import LogConfig
from minikafka.storage.directory_names import deleted_directory_name, parse_directory_name
from minikafka.storage.disk import File, OsDisk, OsFile
from minikafka.storage.epochs import EpochEntry
from minikafka.storage.errors import PassingFailure, StorageFailure
from minikafka.storage.log import CutJob, FlushJob, Log
from minikafka.storage.log_dir import LogDir
from minikafka.storage.log_store import LogStore
from minikafka.storage.meta import MetaError

A, B = TopicPartition("a", 0), TopicPartition("b-topic", 12)
TOPIC_ID = UUID(int=5)

OpenStore = Callable[..., LogStore]


@pytest.fixture
def open_store(tmp_path: Path, disk: OsDisk) -> Iterator[OpenStore]:
    opened: list[LogStore] = []
    uuids = iter(range(10, 10_000))

    def open_(*names: str, node_id: int = 1, cluster_id: str = "cluster", **how: object) -> LogStore:
        paths = [str(tmp_path / name) for name in names or ("d",)]
        store = LogStore.open(
            disk,
            paths,
            node_id=node_id,
            cluster_id=cluster_id,
            new_uuid=lambda: UUID(int=next(uuids)),
            **how,  # type: ignore[arg-type]
        )
        opened.append(store)
        return store

    yield open_
    for store in opened:
        store.abandon()


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("a-0", TopicPartition("a", 0)),
        ("a-b-12", TopicPartition("a-b", 12)),
        ("__cluster_metadata-0", TopicPartition("__cluster_metadata", 0)),
        ("a", None),
        ("a-", None),
        ("a-01", None),
        ("-0", None),
        ("lost+found", None),
        (f"a-0.{'0' * 32}-delete", None),
        ("a-0.x-future", None),
    ],
)
def test_directory_names(name: str, expected: TopicPartition | None) -> None:
    assert parse_directory_name(name) == expected


def test_the_directories_share_the_descriptors_for_closed_segments(open_store: OpenStore) -> None:
    store = open_store("one", "two", open_segments=3)
    logs = [store.create(tp, TOPIC_ID, LogConfig(segment_bytes=200)) for tp in (A, B)]
    assert [log.directory.split("/")[-2] for log in logs] == ["one", "two"]
    for log in logs:
        for _ in range(4):
            append(log, b"x" * 60)
        for offset in range(4):
            log.read(offset, 100)
    assert sum(segment.open_file is not None for log in logs for segment in log.segments.closed) == 3


def test_the_name_of_a_deleted_directory_fits_a_file_name() -> None:
    name = deleted_directory_name(TopicPartition("t" * 249, 1_000_000), UUID(int=1))
    assert len(name) == 255
    assert name.endswith("-1000000.00000000000000000000000000000001-delete")
    assert parse_directory_name(name) is None


@pytest.mark.spec("R22")
def test_everything_comes_back_after_an_orderly_stop(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    for tp in (A, B):
        log = store.create(tp, TOPIC_ID, LogConfig())
        append(log, b"0", b"1", b"2")
    store.close({A: 2, B: 3}, broker_epoch=41)
    assert (tmp_path / "d/.kafka_cleanshutdown").exists()
    store = open_store()
    assert store.was_clean
    assert store.clean_shutdown_broker_epoch == 41
    assert not (tmp_path / "d/.kafka_cleanshutdown").exists()
    assert len(store) == 2
    assert {log.topic_partition for log in store} == {A, B}
    log = store.get(B)
    assert log is not None
    assert log.topic_id == TOPIC_ID
    assert log.recovery_point == 3
    assert all_values(log) == {0: b"0", 1: b"1", 2: b"2"}
    assert store.high_watermark(A) == 2


def test_a_start_after_a_crash_recovers(open_store: OpenStore) -> None:
    store = open_store()
    append(store.create(A, TOPIC_ID, LogConfig()), b"x")
    write_checkpoints(store, {A: 1})
    store.abandon()
    store = open_store()
    assert not store.was_clean
    assert store.clean_shutdown_broker_epoch == -1
    log = store.get(A)
    assert log is not None
    assert all_values(log) == {0: b"x"}
    assert store.high_watermark(A) == 1


@pytest.mark.spec("R22")
def test_checkpoints_bound_the_high_watermark_and_keep_the_log_start(open_store: OpenStore) -> None:
    store = open_store()
    log = store.create(A, TOPIC_ID, LogConfig())
    for _ in range(5):
        append(log, b"x")
    log.delete_records(3, 5)
    write_checkpoints(store, {A: 99})
    store.abandon()
    store = open_store()
    log = store.get(A)
    assert log is not None
    assert log.log_start_offset == 3
    assert store.high_watermark(A) == 5
    write_checkpoints(store, {})
    store.abandon()
    assert open_store().high_watermark(A) == 5, "a log that is not mentioned keeps what was written"


def test_nothing_is_noted_of_a_log_that_has_gone(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    gone = store.create(A, TOPIC_ID, LogConfig())
    append(gone, b"x")
    write_checkpoints(store, {A: 1})
    store.delete(A)
    store.note_rows(gone, 1)
    made = store.create(A, uuid4(), LogConfig())
    store.note_rows(gone, 1)
    job = store.prepare_checkpoints()
    job.run()
    store.complete_checkpoints(job)
    assert (tmp_path / "d/replication-offset-checkpoint").read_text().splitlines()[:2] == ["0", "0"]
    store.note_rows(made, 0)
    assert store.high_watermark(A) == 0


def test_truncation_below_the_recovery_point_is_checkpointed_at_once(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    log = store.create(A, TOPIC_ID, LogConfig())
    for _ in range(5):
        append(log, b"x")
    log.flush()
    write_checkpoints(store, {})
    path = tmp_path / "d/recovery-point-offset-checkpoint"
    assert path.read_text() == "0\n1\na 0 5\ncrc32c ad856f1b\n"
    log.truncate_to(2)
    assert path.read_text() == "0\n1\na 0 2\ncrc32c d7e8a65e\n"


def test_a_deleted_log_is_renamed_then_removed_and_can_be_made_again(
    open_store: OpenStore, disk: OsDisk, tmp_path: Path
) -> None:
    store = open_store()
    log = store.create(A, TOPIC_ID, LogConfig())
    append(log, b"old")
    log.flush()
    write_checkpoints(store, {A: 1})
    region = log.read(0, 1000)
    store.delete(A)
    assert store.get(A) is None
    with pytest.raises(StorageFailure, match="deleted"):
        append(log, b"late")
    names = disk.listdir(str(tmp_path / "d"))
    assert any(name.startswith("a-0.") and name.endswith("-delete") for name in names)
    new = store.create(A, UUID(int=6), LogConfig())
    assert (new.log_end_offset, new.recovery_point, store.high_watermark(A)) == (0, 0, 0)
    assert (tmp_path / "d/recovery-point-offset-checkpoint").read_text() == "0\n0\ncrc32c 2ab4b802\n"
    trash = store.take_trash()
    assert trash is not None
    trash()
    assert store.take_trash() is None
    assert not list((tmp_path / "d").glob("*-delete"))
    assert region.read()
    store.abandon()
    again = open_store().get(A)
    assert again is not None
    assert again.topic_id == UUID(int=6)
    assert again.corruption is None


def test_what_cannot_be_removed_keeps_nothing_else(
    open_store: OpenStore, disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For want of a descriptor, or on a failing disk: the files of all other topics stayed until a restart."""
    remove = disk.remove_tree

    def remove_tree(path: str) -> None:
        if "a-0" in path:
            raise OSError(errno.EMFILE, "too many open files", path)
        remove(path)

    monkeypatch.setattr(disk, "remove_tree", remove_tree)
    store = open_store()
    for tp in (A, B):
        store.create(tp, TOPIC_ID, LogConfig())
        store.delete(tp)
    trash = store.take_trash()
    assert trash is not None
    with pytest.raises(OSError, match="too many open files"):
        trash()
    (left,) = (tmp_path / "d").glob("*-delete")
    assert left.name.startswith("a-0")


def test_a_directory_that_was_being_deleted_is_removed_after_a_restart(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    store.create(A, TOPIC_ID, LogConfig())
    store.delete(A)
    store.abandon()
    store = open_store()
    assert len(store) == 0
    trash = store.take_trash()
    assert trash is not None
    trash()
    assert not list((tmp_path / "d").glob("*-delete"))


def test_segments_deleted_by_retention_go_with_the_trash(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    log = store.create(A, TOPIC_ID, LogConfig(segment_bytes=250))
    for at in range(9):
        append(log, b"%d" % at * 30)
    log.maybe_increment_log_start_offset(9)
    assert delete_old_segments(log, 9, NOW_MS) > 0
    assert list((tmp_path / "d/a-0").glob("*.deleted"))
    trash = store.take_trash()
    assert trash is not None
    trash()
    assert not list((tmp_path / "d/a-0").glob("*.deleted"))


def test_files_of_what_was_deleted_stay_for_a_while(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    long, short = (
        store.create(tp, TOPIC_ID, LogConfig(segment_bytes=250, file_delete_delay_ms=delay_ms))
        for tp, delay_ms in ((A, 1000), (TopicPartition("b", 0), 10))
    )
    for log in (long, short):
        for at in range(9):
            append(log, b"%d" % at * 30)
        log.maybe_increment_log_start_offset(9)
        assert delete_old_segments(log, 9, NOW_MS) > 0
    store.delete(A)

    def left() -> tuple[int, int]:
        return len(list((tmp_path / "d").glob("*-delete"))), len(list((tmp_path / "d/b-0").glob("*.deleted")))

    segments = left()[1]
    assert left() == (1, segments)
    assert store.take_trash(500) is None, "the delays begin now"
    (store.take_trash(510) or pytest.fail("nothing is due"))()
    assert left() == (1, 0)
    assert store.take_trash(1499) is None
    (store.take_trash(1500) or pytest.fail("nothing is due"))()
    assert left() == (0, 0)
    assert store.take_trash() is None


def test_the_same_log_is_not_made_twice(open_store: OpenStore) -> None:
    store = open_store()
    store.create(A, TOPIC_ID, LogConfig())
    with pytest.raises(KafkaError, match="already has a log") as caught:
        store.create(A, TOPIC_ID, LogConfig())
    assert caught.value.code is ErrorCode.INVALID_REQUEST


def test_other_peoples_directories_are_refused(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    with pytest.raises(MetaError, match="another process"):
        open_store()
    store.abandon()
    with pytest.raises(MetaError, match="node 1, not to node 2"):
        open_store(node_id=2)
    with pytest.raises(MetaError, match="cluster cluster, not to other"):
        open_store(cluster_id="other")
    open_store()


@pytest.mark.parametrize("where", ["append", "fsync"])
def test_a_failure_takes_the_whole_directory_offline(
    open_store: OpenStore, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    failures: list[tuple[LogDir, StorageFailure]] = []
    store = open_store("d", "e", on_failure=lambda directory, failure: failures.append((directory, failure)))
    logs = [store.create(TopicPartition("t", at), TOPIC_ID, LogConfig()) for at in range(4)]
    for log in logs:
        append(log, b"x")
    broken = store.log_dir_of(logs[0].topic_partition)
    assert broken is not None

    def fail(_file: OsFile, *_: object) -> None:
        raise OSError(errno.EIO, "gone")

    with monkeypatch.context() as patch:
        patch.setattr(OsFile, where, fail)
        with pytest.raises(StorageFailure):
            append(logs[0], b"y") if where == "append" else logs[0].flush()
    assert [directory for directory, _ in failures] == [broken]
    for log in logs:
        assert log.is_offline == (store.log_dir_of(log.topic_partition) is broken)
    assert [directory.path for directory in store.online] == [
        directory.path for directory in store.directories if directory is not broken
    ]
    assert store.log_dir_of(store.create(A, TOPIC_ID, LogConfig()).topic_partition) is not broken
    write_checkpoints(store, {})
    store.close({})
    assert not Path(broken.path, ".kafka_cleanshutdown").exists()


def test_a_shortage_while_a_log_is_made_leaves_nothing_and_ends(
    open_store: OpenStore, disk: OsDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = open_store("d", "e")
    write_bytes = disk.write_bytes

    def fail(path: str, data: Buffer) -> None:
        if path.endswith("partition.metadata"):
            raise OSError(errno.EMFILE, "too many open files")
        write_bytes(path, data)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "write_bytes", fail)
        with pytest.raises(PassingFailure, match="too many open files"):
            store.create(A, TOPIC_ID, LogConfig())
    assert len(store.online) == 2
    assert not any(Path(directory.path, str(A)).exists() for directory in store.directories)
    assert append(store.create(A, TOPIC_ID, LogConfig()), b"x").base_offset == 0


@pytest.mark.spec("P6")
def test_a_log_for_which_the_disk_is_too_full_is_not_set_aside(
    open_store: OpenStore, disk: OsDisk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy of what is damaged did not fit, while small files did: the whole log went, and was made anew, empty."""
    store = open_store("d", "e")
    log = store.create(A, TOPIC_ID, LogConfig(), store.directories[1])
    append(log, b"0")
    append(log, b"1")
    log.flush()
    write_checkpoints(store, {})
    store.abandon()
    path = tmp_path / "e" / str(A) / f"{0:020d}.log"
    path.write_bytes(path.read_bytes()[:-1] + b"?")
    open_append = disk.open_append

    def refuse(path: str) -> File:
        if path.endswith(".corrupt"):
            raise OSError(errno.ENOSPC, "no space left on device")
        return open_append(path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "open_append", refuse)
        store = open_store("d", "e")
    assert not store.unusable()
    failure = store.directories[1].failure
    assert failure is not None
    assert "make room on it" in failure.message
    store.abandon()
    left = open_store("d", "e").get(A)
    assert left is not None
    assert list(all_values(left)) == [0]


def test_what_a_start_after_a_kill_has_synced_counts_as_durable(open_store: OpenStore) -> None:
    killed = open_store()
    log = killed.create(A, TOPIC_ID, LogConfig(segment_bytes=200))
    for value in (b"x" * 99, b"y" * 99, b"z"):
        append(log, value)
    assert log.recovery_point == 0
    killed.abandon()
    again = open_store().get(A)
    assert again is not None
    assert again.recovery_point == again.log_end_offset == 3
    assert not again.flush_due(NOW_MS)


def test_what_is_recorded_of_a_former_log_goes_with_the_files_that_are_made(
    open_store: OpenStore, disk: OsDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the same thread: no sync on the loop."""
    store = open_store()
    append(store.create(A, TOPIC_ID, LogConfig()), b"x")
    write_checkpoints(store, {A: 1})
    store.delete(A)
    with monkeypatch.context() as patch:
        patch.setattr(disk, "fsync_path", lambda path: pytest.fail(f"{path} is synced"))
        job = store.prepare_create(A, TOPIC_ID, LogConfig())
    job.run()
    store.complete_create(job)
    assert "a 0" not in Path(store.directories[0].path, "replication-offset-checkpoint").read_text()


def test_new_logs_go_where_there_are_fewest(open_store: OpenStore) -> None:
    store = open_store("d", "e", "f")
    for at in range(9):
        store.create(TopicPartition("t", at), TOPIC_ID, LogConfig())
    assert [len(directory.logs) for directory in store.directories] == [3, 3, 3]
    chosen = store.directories[2]
    store.create(A, TOPIC_ID, LogConfig(), chosen)
    assert store.log_dir_of(A) is chosen


@pytest.mark.parametrize(
    ("number", "remedy"),
    [(errno.EIO, "mend the disk, or put the file back"), (errno.ENOSPC, "make room on it and restart this node$")],
)
def test_a_directory_that_cannot_be_loaded_leaves_the_others(
    open_store: OpenStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, remedy: str
) -> None:
    """Of a full disk nobody is told to move the files away: they are whole."""
    store = open_store("d", "e")
    store.create(A, TOPIC_ID, LogConfig(), store.directories[0])
    store.create(B, TOPIC_ID, LogConfig(), store.directories[1])
    store.abandon()
    listdir = OsDisk.listdir

    def refuse(disk: OsDisk, path: str) -> list[str]:
        if path == str(tmp_path / "d"):
            raise OSError(number, "as if the disk were broken", path)
        return listdir(disk, path)

    monkeypatch.setattr(OsDisk, "listdir", refuse)
    store = open_store("d", "e")
    assert [directory.failure is None for directory in store.directories] == [False, True]
    assert store.get(B) is not None
    store.abandon()
    with pytest.raises(StorageFailure, match=f"could not identify .*{remedy}"):
        open_store("d")


def test_an_empty_clean_marker_counts(open_store: OpenStore, tmp_path: Path) -> None:
    open_store().close({})
    (tmp_path / "d/.kafka_cleanshutdown").write_bytes(b"")
    store = open_store()
    assert store.was_clean
    assert store.clean_shutdown_broker_epoch == -1


def test_an_untouched_log_is_not_written_again_when_closing(open_store: OpenStore, tmp_path: Path) -> None:
    store = open_store()
    append(store.create(A, TOPIC_ID, LogConfig()), b"x")
    store.close({})
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "d/a-0").iterdir()}
    store = open_store()
    store.close({})
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "d/a-0").iterdir()} == files
    store = open_store()
    log = store.get(A)
    assert log is not None
    append(log, b"y")
    store.close({})
    log = open_store().get(A)
    assert log is not None
    assert all_values(log) == {0: b"x", 1: b"y"}


@pytest.mark.spec("C5")
def test_cleaner_progress_is_checkpointed(open_store: OpenStore, tmp_path: Path) -> None:
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=150)
    store = open_store(config_for=lambda _where: config)
    log = store.create(A, TOPIC_ID, config)
    for at in range(5):
        append(log, b"%d" % at * 30)
    log.flush()
    assert compact(log, 5, NOW_MS)
    store.close({})
    assert (tmp_path / "d/cleaner-offset-checkpoint").read_text() == "0\n1\na 0 4\ncrc32c be27f76c\n"
    again = open_store(config_for=lambda _where: config).get(A)
    assert again is not None
    assert again.first_dirty_offset == 4


@pytest.mark.spec("R22")
@pytest.mark.spec("R26")
def test_the_cleaner_stores_the_high_watermark_that_it_goes_by(open_store: OpenStore) -> None:
    """After a kill it is known that records below it may be gone for the sake of later ones below it."""
    config = LogConfig(cleanup_policy=frozenset({"compact"}), segment_bytes=150)
    store = open_store()
    log = store.create(A, TOPIC_ID, config)
    for at in range(5):
        append(log, b"%d" % at * 30)
    log.flush()
    job = log.plan_compaction(4, NOW_MS)
    assert job is not None
    while not job.step():
        pass
    assert log.prepare_swap(job)
    job.publish()
    store.abandon()
    killed = open_store(config_for=lambda _where: config)
    assert killed.high_watermark(A) == 4
    again = killed.get(A)
    assert again is not None
    assert again.is_cleaned
    assert again.first_dirty_offset < 4, "the cleaner's progress was not checkpointed"
    again.config = LogConfig()
    assert again.is_cleaned, "also when the topic is not compacted any more"


@pytest.mark.parametrize("begin", [lambda log: log.prepare_flush(), lambda log: log.prepare_truncation(1)])
def test_a_job_of_a_deleted_log_does_not_meet_the_files_of_one_with_the_same_name(
    open_store: OpenStore, begin: Callable[[Log], FlushJob | CutJob]
) -> None:
    """A job in a thread knows files by name: it cut, and listed, those of the topic that was created again."""
    config = LogConfig(segment_bytes=200)
    store = open_store()
    former = store.create(A, TOPIC_ID, config)
    for epoch in range(3):
        append(former, b"x" * 60, leader_epoch=epoch)
    job = begin(former)
    with former.writing():
        store.delete(A)
        with pytest.raises(PassingFailure, match="under way"):
            store.create(A, UUID(int=6), config)
        job.run()
    log = store.create(A, UUID(int=6), config)
    append(log, b"y")
    log.flush()
    write_checkpoints(store, {A: 1})
    store.abandon()
    found = open_store().get(A)
    assert found is not None
    assert (found.corruption, all_values(found), found.epoch_entries) == (None, {0: b"y"}, [EpochEntry(0, 0)])


def test_a_log_is_not_moved_to_where_a_job_of_a_former_one_is_under_way(open_store: OpenStore) -> None:
    store = open_store("one", "two")
    former = store.create(A, TOPIC_ID, LogConfig(), store.directories[0])
    with former.writing():
        store.delete(A)
        store.create(A, TOPIC_ID, LogConfig(), store.directories[1])
        move = store.moves.begin(A, store.directories[0])
        reconcile(move)
        with pytest.raises(PassingFailure, match="under way"):
            complete_move(store, move, 0)
    assert complete_move(store, move, 0).directory == former.directory


def test_a_log_that_was_missing_at_the_start_is_missing_once(open_store: OpenStore, tmp_path: Path) -> None:
    """Created again, deleted, and created with the same name, it was said to have lost its records."""
    store = open_store()
    append(store.create(A, TOPIC_ID, LogConfig()), b"x")
    write_checkpoints(store, {A: 1})
    store.abandon()
    rmtree(tmp_path / "d" / "a-0")
    store = open_store()
    assert store.is_missing(A, TOPIC_ID)
    store.create(A, TOPIC_ID, LogConfig())
    store.delete(A)
    assert not store.is_missing(A, UUID(int=6))
