"""A topic of a cluster that asks who one is, over TLS: read and written, and keys and passwords are printed nowhere."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from minikafka.chaos.authority import CLIENT
from minikafka.chaos.logins import ADMIN
from minikafka.spark.brokers import Brokers
from minikafka.spark.pipelines.report import make_report
from minikafka.testing import MiniKafka

PASSWORD = "never-to-be-seen-8472"


@pytest.fixture(scope="module")
def kafka(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MiniKafka]:
    with MiniKafka(brokers=1, secure=True, directory=tmp_path_factory.mktemp("secure")) as cluster:
        yield cluster


def as_text(kafka: MiniKafka) -> dict[str, str]:
    """Options with keys and certificates themselves, which need no file where a task runs."""
    authority, login = kafka.cluster.layout.authority, kafka.client_config("java")
    key, separator, chain = authority.file_of(CLIENT).read_text().partition("-----BEGIN CERTIFICATE-----")
    return {
        "kafka.bootstrap.servers": kafka.bootstrap_servers,
        **{f"kafka.{name}": login[name] for name in ("security.protocol", "sasl.mechanism", "sasl.jaas.config")},
        "kafka.ssl.truststore.certificates": authority.certificate_file.read_text(),
        "kafka.ssl.keystore.key": key,
        "kafka.ssl.keystore.certificate.chain": separator + chain,
        "kafka.ssl.key.password": PASSWORD,
    }


def test_nothing_says_how_the_brokers_were_reached(
    spark: SparkSession, kafka: MiniKafka, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    options = as_text(kafka)
    password = kafka.cluster.layout.logins.password_file(ADMIN).read_text()
    secrets = [PASSWORD, password, options["kafka.ssl.keystore.key"].splitlines()[1]]
    kafka.create_topic("in")
    kafka.create_topic("out")
    rows = spark.createDataFrame([(f"v{number}",) for number in range(10)], "value string")
    rows.write.format("minikafka").options(**options, topic="in").mode("append").save()
    batch = spark.read.format("minikafka").options(**options, subscribe="in").load()
    assert batch.count() == 10
    stream = spark.readStream.format("minikafka").options(**options, subscribe="in", startingOffsets="earliest").load()
    checkpoint = tmp_path / "checkpoint"
    sink = stream.select("value").writeStream.format("minikafka").options(**options, topic="out")
    query = sink.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination()
    assert len(kafka.records("out")) == 10
    batch.explain(True)
    query.explain(True)
    told = [str(query.lastProgress), repr(query.status), repr(batch), *capfd.readouterr()]
    told += [batch._jdf.queryExecution().toString(), batch._jdf.queryExecution().logical().treeString()]  # type: ignore[operator]
    told += [path.read_bytes().decode(errors="replace") for path in checkpoint.rglob("*") if path.is_file()]
    assert not [text for text in told for secret in secrets if secret in text]


def test_pipelines_reach_it(spark: SparkSession, kafka: MiniKafka) -> None:
    kafka.create_topic("report")
    brokers = Brokers(kafka.bootstrap_servers, kafka.security)
    rows = spark.createDataFrame([("v",)] * 5, "value string")
    rows.write.format("minikafka").options(**brokers.options, topic="report").mode("append").save()
    made = make_report(spark, "report", bootstrap_servers=kafka.bootstrap_servers, security=kafka.security)
    assert made.total.records == 5
    assert Brokers.of_options(brokers.options).options == brokers.options
