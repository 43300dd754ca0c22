"""What ``.option(...)`` understands: declared rows, parsed to frozen values that travel pickled to the tasks.

==============  =====================================================================================================
``option``      what a row is; unknown names, values that cannot be used
``kinds``       how durations, topics and offsets are written
``values``      which topics, and where to begin and end, once parsed
``client``      rows ``kafka.*``: those that reach our client, those without effect here, those that are refused
``source``      rows of the source, and what must hold between them
``sink``        rows of the sink
``table``       all rows, as the documentation lists them
==============  =====================================================================================================

Names and meanings are those of Spark's Kafka connector, so that a job moves by changing the format name; case does not
matter. What that connector ignores, a name that nobody knows, is an error here. Every problem is an
:class:`OptionError` of one line: which option, what is wrong, what to do.
"""

from minikafka.spark.options.client import ClientSettings
from minikafka.spark.options.option import Option, OptionError, Side
from minikafka.spark.options.sink import SinkOptions
from minikafka.spark.options.source import SourceOptions
from minikafka.spark.options.table import OPTIONS
from minikafka.spark.options.values import (
    EARLIEST,
    LATEST,
    AssignedPartitions,
    AtOffsets,
    AtTimestamp,
    AtTimestamps,
    Edge,
    MatchingTopics,
    NamedTopics,
    OffsetSpec,
    TopicChoice,
)

__all__ = [
    "EARLIEST",
    "LATEST",
    "OPTIONS",
    "AssignedPartitions",
    "AtOffsets",
    "AtTimestamp",
    "AtTimestamps",
    "ClientSettings",
    "Edge",
    "MatchingTopics",
    "NamedTopics",
    "OffsetSpec",
    "Option",
    "OptionError",
    "Side",
    "SinkOptions",
    "SourceOptions",
    "TopicChoice",
]
