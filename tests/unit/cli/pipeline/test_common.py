"""What the pipelines' verbs share."""

from __future__ import annotations

from typing import NoReturn

import pytest
from pyspark.errors import PySparkRuntimeError

import minikafka.spark
from minikafka.cli.pipeline.common import spark_session
from minikafka.spark.pipelines.running import PipelineError


def test_a_spark_that_does_not_start_is_a_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def start_session(*_: object, **__: object) -> NoReturn:
        raise PySparkRuntimeError("[JAVA_GATEWAY_EXITED] Java gateway process exited.\nand more")

    monkeypatch.setattr(minikafka.spark, "start_session", start_session)
    with (
        pytest.raises(PipelineError, match=r"^Spark does not start with --master far: Java gateway process exited\.$"),
        spark_session("report", "far", None),
    ):
        pass
