"""The header that tells records apart."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from minikafka.spark.sink.columns import HEADERS_TYPE
from minikafka.spark.sink.origin import ORIGIN_HEADER, Origin

HEADER = st.fixed_dictionaries({"key": st.text(max_size=3), "value": st.none() | st.binary(max_size=3)})


def test_a_row_without_headers_gets_one() -> None:
    made = Origin("q", 7, 2).add_to(None, 10, 2).to_pylist()
    assert made == [[{"key": ORIGIN_HEADER, "value": b"q/7/2/10"}], [{"key": ORIGIN_HEADER, "value": b"q/7/2/11"}]]


@given(st.lists(st.none() | st.lists(HEADER, max_size=3), min_size=1, max_size=20), st.integers(0, 3))
def test_it_is_the_last_of_a_rows_headers(rows: list[list[dict[str, object]] | None], sliced: int) -> None:
    array = pa.array(rows, HEADERS_TYPE)[sliced:]
    made = Origin("q", 0, 0).add_to(array, 5, len(array))
    made.validate(full=True)
    assert made.to_pylist() == [
        [*(given or []), {"key": ORIGIN_HEADER, "value": f"q/0/0/{number}".encode()}]
        for number, given in enumerate(rows[sliced:], 5)
    ]
