"""The options of ``.option(...)``: declared rows, parsed to frozen values that are sent pickled to the tasks.

==============  =====================================================================================================
``option``      the row of an option; errors for unknown names and invalid values
``kinds``       formats of durations, topics and offsets
``values``      parsed choices of topics and offsets
``client``      rows ``kafka.*``: passed to our client, without effect here, or refused
``security``    rows of them that are about TLS
``source``      rows of the source, and checks between them
``sink``        rows of the sink
``table``       all rows, for the documentation
==============  =====================================================================================================

Names and meanings are those of Spark's Kafka connector, so that a job moves by changing the format name; case does not
matter. That connector ignores unknown names; here they are errors. Every problem is an :class:`OptionError`
of one line: the option, the defect, the remedy.
"""

from minikafka.spark.options.client import ClientSettings
from minikafka.spark.options.option import Option, OptionError, Side
from minikafka.spark.options.sink import SinkOptions
from minikafka.spark.options.source import SourceOptions
from minikafka.spark.options.table import OPTIONS
from minikafka.spark.options.values import (
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
