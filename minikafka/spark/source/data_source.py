"""The data source ``minikafka``."""

from __future__ import annotations

from typing import Final

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from minikafka.spark.options import OptionError, SinkOptions, SourceOptions
from minikafka.spark.options.source import check_options, includes_headers

FORMAT: Final = "minikafka"


class SchemaError(ValueError):
    """The query names columns that topics do not have."""


class MinikafkaDataSource(DataSource):
    """Topics, with the columns and options of Spark's own Kafka connector."""

    @classmethod
    def name(cls) -> str:
        """The name for ``format(...)``."""
        return FORMAT

    def schema(self) -> StructType:
        """The columns to read. Raises OptionError for invalid options."""
        from minikafka.spark.columns.schema import source_schema

        check_options(self.options)
        return source_schema(include_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        from minikafka.spark.source.batch import TopicReader

        self._check(schema)
        return TopicReader(SourceOptions.parse(self.options, is_streaming=False))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """For ``spark.readStream``."""
        from minikafka.spark.source.refused import RefusedStreamReader
        from minikafka.spark.source.stream import TopicStreamReader

        try:
            self._check(schema)
            return TopicStreamReader(SourceOptions.parse(self.options, is_streaming=True))
        except (OptionError, SchemaError) as error:
            return RefusedStreamReader(error)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """For ``df.write``."""
        from minikafka.spark.sink import TopicWriter

        return TopicWriter(SinkOptions.parse(self.options), schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802 - Spark's name
        """For ``df.writeStream``."""
        from minikafka.spark.sink import TopicStreamWriter

        return TopicStreamWriter(SinkOptions.parse(self.options), schema)

    def _check(self, schema: StructType) -> None:
        if schema != self.schema():
            names = ", ".join(self.schema().fieldNames())
            raise ValueError(
                f"the columns of a topic are fixed ({names}); remove .schema(...) and select what you want"
            )


class FilteredDataSource(MinikafkaDataSource):
    """The same for a session in which Spark hands filters to sources in Python (:func:`minikafka.spark.register`)."""

    def reader(self, schema: StructType) -> DataSourceReader:
        """For ``spark.read``."""
        from minikafka.spark.source.batch import FilteredTopicReader

        self._check(schema)
        return FilteredTopicReader(SourceOptions.parse(self.options, is_streaming=False))
