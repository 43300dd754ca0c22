"""Which segments are read, and up to where."""

from __future__ import annotations

from pathlib import Path

import pytest
from log_files import Logs, batch

from minikafka.model import TopicPartition
from minikafka.spark.offline.options import LogOptions
from minikafka.spark.offline.segments import NO_END, SegmentTask, plan
from minikafka.spark.options import OptionError
from minikafka.storage.disk import OsDisk

T0, T1, U0 = TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)


def planned(*paths: Path, **options: str) -> list[SegmentTask]:
    given = {"path": ",".join(map(str, paths))} | options
    return plan(OsDisk(), LogOptions.parse(given))


def described(tasks: list[SegmentTask]) -> list[tuple[str, int, int, int]]:
    return [(str(task.tp), task.base_offset, task.start_offset, task.end_offset) for task in tasks]


def three_segments(logs: Logs, tp: TopicPartition = T0) -> None:
    for base_offset in (0, 6, 12):
        logs.segment(tp, base_offset, batch(base_offset), batch(base_offset + 3))


def test_a_task_for_each_segment_below_the_high_watermark(logs: Logs) -> None:
    three_segments(logs)
    three_segments(logs, T1)
    logs.high_watermarks({T0: 12, T1: 14})
    tasks = planned(logs.path)
    assert described(tasks) == [
        *[("t-0", base, 0, 12) for base in (0, 6)],
        *[("t-1", base, 0, 14) for base in (0, 6, 12)],
    ]
    assert {(task.node_id, task.directory) for task in tasks} == {(1, str(logs.path))}
    assert [task.is_last for task in tasks] == [False, False, False, False, True]
    assert [task.size_bytes for task in tasks] == [Path(task.path).stat().st_size for task in tasks]


def test_everything_to_the_end(logs: Logs) -> None:
    three_segments(logs)
    assert described(planned(logs.path, upTo="end")) == [("t-0", base, 0, NO_END) for base in (0, 6, 12)]
    assert planned(logs.path, upTo="end")[0].high_watermark is None


def test_what_was_deleted_is_not_read(logs: Logs) -> None:
    three_segments(logs)
    logs.high_watermarks({T0: 18})
    logs.log_starts({T0: 7})
    assert described(planned(logs.path)) == [("t-0", base, 7, 18) for base in (6, 12)]


def test_without_any_high_watermark_the_user_must_choose(logs: Logs, caplog: pytest.LogCaptureFixture) -> None:
    three_segments(logs)
    with pytest.raises(OptionError, match=r"does not say up to where its logs are committed .* set upTo=end"):
        planned(logs.path)
    logs.segment(U0, 0, batch(0))
    logs.high_watermarks({U0: 3})
    assert described(planned(logs.path)) == [("u-0", 0, 0, 3)]
    assert f"{logs.path} has no high watermark of t-0" in caplog.text


def test_directories_are_found_in_those_of_nodes_and_clusters(tmp_path: Path) -> None:
    for node_id in (1, 2):
        for name in ("data", "more"):
            logs = Logs(tmp_path / f"node-{node_id}" / name, node_id)
            logs.segment(T0 if name == "data" else T1, 0, batch(0))
            logs.high_watermarks({T0: 3, T1: 3})
    (tmp_path / "node-1" / "broker.log").write_text("")
    assert len(planned(tmp_path)) == len(planned(tmp_path, tmp_path / "node-1")) == 4
    assert {task.node_id for task in planned(tmp_path / "node-2")} == {2}
    (one,) = planned(tmp_path / "node-2" / "more" / "t-1")
    assert (one.tp, one.node_id) == (T1, 2)


def test_a_copy_without_identity_is_read_too(tmp_path: Path) -> None:
    logs = Logs(tmp_path / "copy", None)
    three_segments(logs)
    (logs.path / "t-0" / "needs-refetch").write_text("")
    (logs.path / "t-9.0123-future").mkdir()
    assert {task.node_id for task in planned(tmp_path, upTo="end")} == {None}


def test_topics_are_chosen(logs: Logs) -> None:
    internal = TopicPartition("__consumer_offsets", 0)
    for tp in (T0, T1, U0, internal):
        logs.segment(tp, 0, batch(0))

    def topics(**options: str) -> set[str]:
        return {task.tp.topic for task in planned(logs.path, upTo="end", **options)}

    assert topics() == {"t", "u"}
    assert topics(topics="u") == topics(subscribe="u") == topics(subscribePattern="[u-z]") == {"u"}
    assert topics(topics="t,__consumer_offsets") == {"t", "__consumer_offsets"}
    with pytest.raises(OptionError, match=r"topic 'v' not found in .*; topics there: __consumer_offsets, t, u"):
        topics(topics="t,v")
    with pytest.raises(OptionError, match="topic of the options not found"):
        topics(subscribePattern="v")


def test_one_replica_of_each_partition(tmp_path: Path) -> None:
    for node_id, high_watermark in ((1, 3), (2, 6), (3, 6)):
        logs = Logs(tmp_path / f"node-{node_id}", node_id)
        three_segments(logs)
        logs.high_watermarks({T0: high_watermark})
    assert {task.node_id for task in planned(tmp_path)} == {1, 2, 3}
    assert {task.node_id for task in planned(tmp_path, replicas="one")} == {2}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "option 'path' is missing"),
        ({"path": "/no/such/directory"}, "directory /no/such/directory not found"),
        ({"path": "/", "topics": "a", "subscribePattern": "b"}, "exclude one another"),
        ({"path": "/", "upTo": "now"}, "'upTo' is 'now'; it must be"),
        ({"path": "/", "mode": "dropMalformed"}, "'mode' is 'dropMalformed'; it must be"),
        ({"path": "/", "verifyCrcs": "true"}, "did you mean 'verifyCrc'"),
    ],
)
def test_options_that_cannot_be_used(options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        plan(OsDisk(), LogOptions.parse(options))


def test_a_directory_without_logs(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="is not a log directory"):
        planned(tmp_path)
