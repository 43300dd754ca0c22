from __future__ import annotations

from itertools import islice
from pathlib import Path
from types import SimpleNamespace

import pytest

from minikafka.chaos.history import History
from minikafka.chaos.workload import SourceProducer, record_id, source_lines
from minikafka.ledger.checker import check


def test_lines_carry_where_they_stand_and_start_again_under_new_keys(tmp_path: Path) -> None:
    tmp_path.joinpath("b.py").write_bytes(b"x = 1\r\n\ny = 2")
    tmp_path.joinpath("a").mkdir()
    tmp_path.joinpath("a", "c.py").write_bytes(b"pass\n")
    tmp_path.joinpath("site-packages").mkdir()
    tmp_path.joinpath("site-packages", "not_ours.py").write_bytes(b"pass\n")
    lines = list(islice(source_lines(str(tmp_path)), 6))
    assert lines == [
        ("b.py:1", b"x = 1"),
        ("b.py:2", b""),
        ("b.py:3", b"y = 2"),
        ("a/c.py:1", b"pass"),
        ("2/b.py:1", b"x = 1"),
        ("2/b.py:2", b""),
    ]


def test_the_standard_library_has_plenty_of_lines_with_different_ids() -> None:
    lines = list(islice(source_lines(), 50_000))
    assert len({record_id(*line) for line in lines}) == 50_000


def test_a_python_without_sources_is_told(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no Python sources"):
        next(source_lines(str(tmp_path)))


def test_a_record_that_changed_has_another_id() -> None:
    assert record_id("a.py:1", b"x") != record_id("a.py:1", b"y")


def test_a_record_has_one_id_whatever_its_client_hands_out() -> None:
    assert record_id(b"a.py:1", b"x") == record_id("a.py:1", b"x")
    assert record_id(None, None) == record_id("", b"")
    assert record_id(b"\xff", b"x") == record_id("\ufffd", b"x")


def test_a_record_that_librdkafka_knows_to_be_written_without_its_offset_counts_as_acknowledged() -> None:
    """After a retry it may hear only that a later batch is written: its message has no offset then."""
    history = History()
    producer = SourceProducer("localhost:1", "t", 1, history, 1)
    history.append(producer.name, "invoke", "send", [("t-0", record_id("a.py:1", b"x"))])
    offset = None
    producer._on_delivery(
        None,
        SimpleNamespace(
            partition=lambda: 0, key=lambda: b"a.py:1", value=lambda: b"x", offset=lambda: offset, latency=lambda: 0.1
        ),
    )
    producer._record()
    verdict = check(history.events)
    assert (verdict.sent, verdict.acknowledged) == (1, 1)
