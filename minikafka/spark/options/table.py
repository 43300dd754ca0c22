"""All rows, for the documentation."""

from __future__ import annotations

from typing import Final

from minikafka.spark.options.client import CLIENT_OPTIONS
from minikafka.spark.options.option import Option
from minikafka.spark.options.sink import SINK_OPTIONS
from minikafka.spark.options.source import SOURCE_OPTIONS

OPTIONS: Final[tuple[Option, ...]] = (*SOURCE_OPTIONS, *SINK_OPTIONS, *CLIENT_OPTIONS)
ROWS: Final[dict[str, Option]] = {option.name.lower(): option for option in OPTIONS}
assert len(ROWS) == len(OPTIONS), "an option is declared twice"
