"""A checkpoint is for one query."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from minikafka.spark.pipelines.running import PipelineError
from minikafka.spark.pipelines.windows.checkpoint import Purpose
from minikafka.spark.pipelines.windows.spec import Windows

WINDOWS = Windows.parse(window="10s", key=["json.user"], agg=["sum(json.amount) AS total"])
PURPOSE = Purpose("cluster-a", "orders", "totals", WINDOWS)


def test_the_same_query_goes_on_whatever_fields_its_first_start_learnt() -> None:
    stored = replace(PURPOSE, fields="user STRING, amount DOUBLE")
    PURPOSE.check_same(json.loads(stored.to_json()), "dir")


@pytest.mark.parametrize(
    ("other", "complaint"),
    [
        (replace(PURPOSE, topic="clicks"), "TOPIC was clicks"),
        (replace(PURPOSE, windows=replace(WINDOWS, window_ms=60_000)), "--window was 1m"),
        (replace(PURPOSE, windows=replace(WINDOWS, keys=())), "--key was none"),
        (replace(PURPOSE, windows=replace(WINDOWS, where="key > 1")), "--where was key > 1"),
        (replace(PURPOSE, windows=Windows.parse(window="10s", key=["json.user"])), "--agg was 'count(*) AS count'"),
        (replace(PURPOSE, cluster_id="cluster-b"), "is of another cluster (cluster-b, not cluster-a)"),
    ],
)
def test_another_query_is_refused_in_words(other: Purpose, complaint: str) -> None:
    with pytest.raises(PipelineError) as refused:
        PURPOSE.check_same(json.loads(other.to_json()), "dir")
    assert complaint in str(refused.value)
    assert "choose another --checkpoint" in str(refused.value)
