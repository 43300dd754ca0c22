"""``python -m minikafka.spark.typical_jobs FILE``: lists the classes that pipelines load, for ``shared_classes``."""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def _note_classes(classes: Path) -> str:
    """Run jobs like those of the pipelines; Java lists the loaded classes in ``classes``. Returns the class path."""
    from minikafka.spark import start_session

    note = f'"-XX:DumpLoadedClassList={classes}" -XX:TieredStopAtLevel=1 -XX:+UseSerialGC'
    spark = start_session("classes", settings={"spark.driver.extraJavaOptions": note})
    with tempfile.TemporaryDirectory() as directory:
        _run_typical_jobs(spark, directory)
    gateway = spark.sparkContext._gateway
    assert gateway is not None
    class_path: str = gateway.jvm.java.lang.System.getProperty("java.class.path")
    spark.stop()
    gateway.proc.stdin.close()  # ends Java
    gateway.proc.wait()
    return class_path


def _run_typical_jobs(spark: SparkSession, directory: str) -> None:
    """A batch job with Parquet and a Python source, a stream with windows, a watermark and state."""
    from pyspark.sql import functions as f

    spark.dataSource.register(_FewRows)
    rows = spark.read.format(_FewRows.name()).load().withColumn("at", f.current_timestamp())
    rows.write.partitionBy("key").parquet(f"{directory}/lake")
    lake = spark.read.parquet(f"{directory}/lake")
    lake.groupBy("key").agg(f.count("*"), f.max("at")).orderBy("key").collect()
    spark.conf.set(
        "spark.sql.streaming.stateStore.providerClass",
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider",
    )
    stream = spark.readStream.schema(lake.schema).parquet(f"{directory}/lake").withWatermark("at", "1 second")
    windows = stream.groupBy(f.window("at", "10 seconds"), "key").count()
    query = windows.writeStream.format("noop").outputMode("update").trigger(availableNow=True)
    query.option("checkpointLocation", f"{directory}/checkpoint").start().awaitTermination()


class _FewRows(DataSource):
    """A source in Python, like ours."""

    @classmethod
    def name(cls) -> str:
        return "few-rows"

    def schema(self) -> str:
        return "id long, key string"

    def reader(self, schema: StructType) -> DataSourceReader:
        return _FewRowsReader()


class _FewRowsReader(DataSourceReader):
    def read(self, partition: InputPartition) -> Iterator[pyarrow.RecordBatch]:
        import pyarrow

        yield pyarrow.record_batch({"id": range(10), "key": [str(number % 3) for number in range(10)]})


if __name__ == "__main__":
    print(_note_classes(Path(sys.argv[1])))
