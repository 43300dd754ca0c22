from __future__ import annotations

import pyarrow as pa

from minikafka.spark.columns.schema import HEADERS_TYPE
from minikafka.spark.pipelines.replay.marks import MARK, add_marks, replay_id


def test_a_mark_comes_behind_the_headers_that_are_there() -> None:
    headers = pa.array([None, [{"key": "a", "value": None}, {"key": "b", "value": b"1"}], []], HEADERS_TYPE)
    marked = add_marks(headers, "0815", pa.array(["orders-0", "dir/file.csv", "orders-0"]), pa.array([7, 8, 9]))
    assert [[(each["key"], each["value"]) for each in of] for of in marked.to_pylist()] == [
        [(MARK, b"0815/7/orders-0")],
        [("a", None), ("b", b"1"), (MARK, b"0815/8/dir/file.csv")],
        [(MARK, b"0815/9/orders-0")],
    ]
    assert marked.type == HEADERS_TYPE


def test_slices_of_headers_are_read_right() -> None:
    headers = pa.array([[{"key": "x", "value": b"0"}], None, [{"key": "y", "value": b"1"}]], HEADERS_TYPE).slice(1)
    marked = add_marks(headers, "r", pa.array(["s", "s"]), pa.array([1, 2]))
    assert [[each["key"] for each in of] for of in marked.to_pylist()] == [[MARK], ["y", MARK]]


def test_no_rows_have_no_marks() -> None:
    assert len(add_marks(pa.array([], HEADERS_TYPE), "r", pa.array([], pa.string()), pa.array([], pa.int64()))) == 0


def test_the_id_is_of_what_is_replayed() -> None:
    assert replay_id("lake", "a") == replay_id("lake", "a") != replay_id("lakea", "") != replay_id("lake", "b")
    assert "/" not in replay_id("lake")
