"""The query of a checkpoint. Only the same query can use its state: another one is refused with the differences.

The note is a text file in the checkpoint. Spark writes it, so every file system of Spark works.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from minikafka.spark.pipelines.running import PipelineError, literally, readable_errors
from minikafka.spark.pipelines.windows.spec import Named, Windows, format_duration

_UNFINISHED: Final = re.compile(r"\.\.?\d+\..*\.tmp(\.crc)?")  # offsets of a batch without their final name
_NOTE: Final = "purpose"
_OPTIONS: Final = {
    "topic": "TOPIC",
    "to": "--to",
    "keys": "--key",
    "aggregates": "--agg",
    "window_ms": "--window",
    "slide_ms": "--slide",
    "watermark_ms": "--watermark",
    "time": "--time",
    "where": "--where",
    "schema": "--schema",
    "emit": "--emit",
}


@dataclass(frozen=True, slots=True)
class Purpose:
    """The query of a checkpoint, and the fields of ``json`` that its first start learnt."""

    cluster_id: str
    topic: str
    to: str
    windows: Windows
    fields: str | None = None

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    def differences(self, stored: dict[str, Any]) -> list[str]:
        """The options in which a stored purpose differs: ``--window was 10s``."""
        ours: dict[str, Any] = json.loads(self.to_json())
        before, now = ({**each, **each["windows"]} for each in (stored, ours))
        return [f"{option} was {_words(name, before.get(name))}" for name, option in _OPTIONS.items()
                if before.get(name) != now[name]]  # fmt: skip

    def check_same(self, stored: dict[str, Any], checkpoint: str) -> None:
        """Raise PipelineError unless the checkpoint is for this query."""
        if differences := self.differences(stored):
            whose = f"other windows ({'; '.join(differences)})"
        elif stored["cluster_id"] != self.cluster_id:
            whose = f"another cluster ({stored['cluster_id']}, not {self.cluster_id})"
        else:
            return
        raise PipelineError(
            f"the checkpoint {checkpoint} is of {whose}: choose another --checkpoint, or delete it to begin anew"
        )


def load_purpose(spark: SparkSession, checkpoint: str) -> dict[str, Any] | None:
    """The purpose of the checkpoint; None if no query has begun a batch with it.

    Raises PipelineError for the checkpoint of another program, and for an unreadable one.
    """
    with readable_errors(f"the checkpoint {checkpoint} cannot be used: "):
        if not _lines(spark, f"{checkpoint}/offsets"):
            return None
        lines = _lines(spark, f"{checkpoint}/{_NOTE}")
    try:
        found: dict[str, Any] = json.loads(lines[0])
    except (IndexError, ValueError):
        raise PipelineError(
            f"the checkpoint {checkpoint} belongs to another program: choose another --checkpoint"
        ) from None
    return found


def save_purpose(spark: SparkSession, checkpoint: str, purpose: Purpose) -> None:
    """Write the purpose of a new checkpoint. Raises PipelineError if it cannot be written."""
    with readable_errors(f"the checkpoint {checkpoint} cannot be used: "):
        _remove_leftovers(spark, checkpoint)
        note = spark.createDataFrame([(purpose.to_json(),)], "value string")
        note.coalesce(1).write.mode("overwrite").text(f"{checkpoint}/{_NOTE}")


def _remove_leftovers(spark: SparkSession, checkpoint: str) -> None:
    """A crash or a full disk during the first write of offsets leaves a hidden file. Spark would take it for a begun
    batch,
    and refuse to start. Other files stay: they may be another program's."""
    jvm: Any = spark.sparkContext._jvm
    offsets = jvm.org.apache.hadoop.fs.Path(f"{checkpoint}/offsets")
    files = offsets.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration())
    for found in files.listStatus(offsets) if files.exists(offsets) else ():
        if found.isFile() and _UNFINISHED.fullmatch(found.getPath().getName()):
            files.delete(found.getPath(), False)


def _lines(spark: SparkSession, path: str) -> list[str]:
    """The lines of all files in a directory; empty if it is missing."""
    try:
        return [line for (line,) in spark.read.text(literally(path)).collect()]
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            return []
        raise


def _words(name: str, value: Any) -> str:
    if value is None:
        return "not given"
    if name.endswith("_ms"):
        return format_duration(value)
    if isinstance(value, list):
        return ", ".join(f"'{expression} AS {name}'" for name, expression in (Named(*each) for each in value)) or "none"
    return str(value)
