"""Which values of a sample say what fields are."""

from __future__ import annotations

import pytest

from minikafka.spark.pipelines.windows.plan import usual_values

NUMBERS = ['{"a": 1}', '{"a": 1.5, "b": "x"}', '{"a": null}', '{"b": "y"}']


@pytest.mark.parametrize("unusual", ["no JSON", "[1]", "7", "", '{"a": "much"}', '{"a": true}', '{"a": {"a": 1}}'])
def test_values_that_are_not_like_most_say_nothing(unusual: str) -> None:
    assert usual_values([unusual, *NUMBERS], frozenset("a")) == NUMBERS


def test_fields_that_nobody_asks_for_do_not_matter() -> None:
    values = ['{"a": 1, "b": 2}', '{"a": 1, "b": "two"}', '{"a": 1, "b": "three"}']
    assert usual_values(values, frozenset("a")) == values
    assert usual_values(values, None) == values[1:]
