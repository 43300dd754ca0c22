"""Finds Spark's own Kafka connector, the reference that ours is measured by, as Spark itself would: with its Ivy.

The connector is no part of PySpark; Spark resolves it from the registry of Java packages by its coordinates. The
version wanted is the one of the Spark that runs. Each run asks for it anew unless Ivy's cache has it. While that one
is not published, :data:`STAND_IN` is taken, which is older.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyspark

from minikafka.spark.java import spark_java_home

ARTIFACT: Final = "spark-sql-kafka-0-10_2.13"
STAND_IN: Final = "4.2.0"
"""The newest version that the registry had when 4.3.0 was missing from it. All of it runs in 4.3.0, streams too."""

_OLDER_PART: Final = (
    '<override org="org.apache.spark" module="spark-token-provider-kafka-0-10_2.13" rev="4.1.0-preview1"/>'
)
"""What the stand-in looks delegation tokens up with: the registry had none newer. No test here has such tokens."""

REQUIRED: Final = "MINIKAFKA_REFERENCE"
"""Set to ``required``, this environment variable makes tests fail, rather than be skipped, without the connector of the
same version."""

_PATIENCE_S: Final = 120.0
_IN_SPARK_ALREADY: Final = (
    "at.yawk.lz4",
    "com.google.code.findbugs",
    "org.apache.hadoop",
    "org.lz4",
    "org.scala-lang",
    "org.scala-lang.modules",
    "org.slf4j",
    "org.xerial.snappy",
)
_WANTED: Final = """\
<ivy-module version="2.0">
  <info organisation="minikafka" module="reference"/>
  <dependencies>
    <dependency org="org.apache.spark" name="{artifact}" rev="{version}" conf="default->default"/>
    <exclude org="org.apache.spark" module="spark-tags_2.13"/>
    {excluded}
    {older}
  </dependencies>
</ivy-module>
"""


@dataclass(frozen=True, slots=True)
class Connector:
    """The connector that was found, or nothing; ``missing`` says why not the one of this Spark's version."""

    version: str
    jars: tuple[Path, ...]
    missing: str


def find_connector(directory: Path) -> Connector:
    """Resolve the connector into ``directory``: of this Spark's version, else the stand-in, else none."""
    missing = ""
    for version, older in ((pyspark.__version__, ""), (STAND_IN, _OLDER_PART)):
        jars, complaint = _resolve(version, older, directory / version)
        if jars:
            return Connector(version, jars, missing)
        missing = missing or complaint
    return Connector("", (), missing)


def _resolve(version: str, older: str, directory: Path) -> tuple[tuple[Path, ...], str]:
    """The connector and what it needs beside Spark, or no files and what Ivy complained of."""
    directory.mkdir(parents=True)
    wanted = directory / "ivy.xml"
    excluded = "\n    ".join(f'<exclude org="{organisation}"/>' for organisation in _IN_SPARK_ALREADY)
    wanted.write_text(_WANTED.format(artifact=ARTIFACT, version=version, excluded=excluded, older=older))
    home = spark_java_home(os.environ)
    java = f"{home}/bin/java" if home else "java"
    (ivy,) = Path(pyspark.__file__).parent.glob("jars/ivy-*.jar")
    to = f"{directory}/[artifact]-[revision].[ext]"
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    command = [java, *fast, "-jar", str(ivy), "-ivy", str(wanted), "-types", "jar", "-retrieve", to]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S)
    except subprocess.TimeoutExpired:
        return (), f"{ARTIFACT}:{version} could not be fetched in {_PATIENCE_S:g} s"
    if done.returncode == 0 and (jars := tuple(sorted(directory.glob("*.jar")))):
        return jars, ""
    complaints = "; ".join(dict.fromkeys(_complaints(done.stdout))) or f"Ivy ended with {done.returncode}"
    return (), f"{ARTIFACT}:{version} could not be resolved: {complaints}"


def _complaints(output: str) -> Iterator[str]:
    """What Ivy says of hosts that do not answer and of modules that are not there."""
    for line in output.splitlines():
        text = line.strip(" \t:")
        if text.startswith("Host ") or text.endswith(": not found") or "onnection" in text or "refused" in text:
            yield text.split(" url=")[0]
