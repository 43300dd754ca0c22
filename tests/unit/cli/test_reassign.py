"""What the verbs that move replicas and leaderships refuse before they ask a cluster, and how they print."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from click.testing import CliRunner
from command_line import COMMAND

from minikafka.cli.log_dirs import _check_all_answered
from minikafka.cli.progress import caught_up, move_bar
from minikafka.cli.reassign import parse_brokers
from minikafka.cli.reassign_view import progress_as_dict, status_lines
from minikafka.client.reassigning.plan import Placement, PlanError
from minikafka.client.reassigning.progress import DirectoryMove, Progress, State
from minikafka.client.reassigning.throttles import Throttle
from minikafka.model import TopicPartition

A0, A1, A2 = (TopicPartition("a", index) for index in range(3))


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("reassign", "choose one of --generate, --execute, --verify, --cancel, --list"),
        ("reassign --execute --verify x.json", "not --execute and --verify"),
        ("reassign --execute", "--execute needs a FILE"),
        ("reassign --execute x.json --throttle 0", "--throttle"),
        ("reassign --cancel x.json --json", "--json: is for --generate, --verify and --list"),
        ("elect-leaders", "choose one of --all-topic-partitions, --topic and --path-to-json-file"),
        ("elect-leaders --topic a --all-topic-partitions", "choose one of"),
        ("elect-leaders --all-topic-partitions --partition 1", "needs --topic"),
        ("elect-leaders --election-type best --topic a", "'best' is not one of"),
        ("topic move events --to 1,2", "'events' is not TOPIC:PARTITION, for example events:0"),
        ("topic move events:x --to 1,2", "'events:x' is not TOPIC:PARTITION"),
        ("topic move events:0 --to 1,x", "'1,x' is not a list of broker ids"),
        ("topic move events:0", "Missing option '--to'"),
        ("log-dirs --broker-list 1,x", "'1,x' is not a list of broker ids"),
        ("topic alter a", "nothing to change; give --partitions, --config or --delete-config"),
        ("topic alter a --config x=1 --delete-config x", "x is also in --config"),
        ("topic alter a --config x", "is not NAME=VALUE"),
    ],
)
def test_what_makes_no_sense_is_a_usage_error(words: str, complaint: str) -> None:
    result = CliRunner().invoke(COMMAND, words.split(), env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert complaint in result.stderr


@pytest.mark.parametrize("words", [["reassign", "--execute"], ["elect-leaders", "--path-to-json-file"]], ids=" ".join)
def test_a_file_that_cannot_be_read_is_named(words: list[str], tmp_path: Path) -> None:
    missing, binary = tmp_path / "none.json", tmp_path / "segment.log"
    binary.write_bytes(b"\xff\xfe\x00")
    for path, complaint in (
        (missing, f"cannot read {missing}: No such file or directory"),
        (tmp_path, f"cannot read {tmp_path}: Is a directory"),
        (binary, f"{binary} is not a UTF-8 text file"),
    ):
        result = CliRunner().invoke(COMMAND, [*words, str(path)])
        assert isinstance(result.exception, PlanError)
        assert str(result.exception) == complaint


def test_brokers_that_do_not_answer_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    _check_all_answered([], {1: []})
    _check_all_answered([1], {1: [], 2: []})
    with pytest.raises(SystemExit):
        _check_all_answered([1, 7, 8], {1: []})
    assert "not alive: 7, 8; omit the option" in capsys.readouterr().err


def test_broker_lists() -> None:
    assert parse_brokers("1,2, 3") == [1, 2, 3]


def progress(**how: int) -> Progress:
    counts = {"replicas_total": 2, "replicas_done": 1, "bytes_total": 0, "bytes_done": 0} | how
    move = DirectoryMove(A0, 1, "/data")
    return Progress(
        {A0: State.COMPLETE, A1: State.IN_PROGRESS, A2: State.DIFFERENT},
        {A0: (1,), A1: (1, 2), A2: (3, 1)},
        {move: State.COMPLETE, move._replace(broker=2): State.IN_PROGRESS, move._replace(broker=3): State.DIFFERENT},
        **counts,
    )


@pytest.mark.spec("A6")
def test_the_state_of_a_plan_is_told_in_the_words_of_kafkas_tool() -> None:
    plan = {tp: Placement((1, 2)) for tp in (A0, A1, A2)}
    assert list(status_lines(plan, progress())) == [
        "Reassignment of partition a-0 is completed.",
        "Reassignment of partition a-1 is still in progress.",
        "There is no active reassignment of partition a-2, but replica set is 3,1 rather than 1,2.",
        "Reassignment of replica a-0-1 completed successfully.",
        "Reassignment of replica a-0-2 is still in progress.",
        "Partition a-0 on broker 3 is not being moved to log dir /data.",
    ]
    told = progress_as_dict(plan, progress(), Throttle({1: {}}, {}))
    assert not told["complete"]
    assert [each["state"] for each in told["partitions"]] == ["complete", "in_progress", "different"]
    assert told["partitions"][2] == {
        "topic": "a",
        "partition": 2,
        "state": "different",
        "replicas": (3, 1),
        "wanted": (1, 2),
    }
    assert told["cleared_throttles"] == {"brokers": [1], "topics": []}
    assert [each["state"] for each in told["directories"]] == ["complete", "in_progress", "different"]


@pytest.mark.spec("A6")
def test_progress_is_counted_in_replicas_and_bytes(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert caught_up(progress()) == "1 of 2 replicas caught up"
    some = progress(bytes_total=3 << 20, bytes_done=1 << 20)
    assert caught_up(some) == "1 of 2 replicas, 1.0 MiB of 3.0 MiB caught up"
    drawn: list[dict[str, object]] = []
    with monkeypatch.context() as patched:
        patched.setattr("minikafka.cli.progress.bar", lambda what: nullcontext(lambda **how: drawn.append(how)))
        with move_bar() as show:
            show(progress())
            show(some)
    assert drawn == [
        {"total": 2, "completed": 1, "told": " 50% 1 of 2 replicas caught up"},
        {"total": 3 << 20, "completed": 1 << 20, "told": f" 33% {caught_up(some)}"},
    ]
    with move_bar() as show:
        show(some)
    assert capsys.readouterr().out == "", "the bar is on stderr"
