"""Write ``docs/spark-options.md`` from the declared options.

python tools/generate_spark_options.py            # rewrite the page
python tools/generate_spark_options.py --check    # exit 1 when the committed page differs
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

from minikafka.spark.offline.options import LOG_OPTIONS
from minikafka.spark.options import Option, Side
from minikafka.spark.options.client import CLIENT_OPTIONS
from minikafka.spark.options.sink import SINK_OPTIONS
from minikafka.spark.options.source import SOURCE_OPTIONS

PAGE = Path(__file__).resolve().parent.parent / "docs" / "spark-options.md"

HEAD = """# Options of `format("minikafka")`

Generated from `minikafka/spark/options/` by `tools/generate_spark_options.py`; do not edit.

Names, defaults and meanings are those of Spark's own Kafka connector. Case does not matter. A name that nobody knows,
an option on the wrong side, and a value that cannot be used fail the query before it begins, with a line that says what
to do. How to use them is in [spark.md](spark.md).
"""

WHERE = {Side.BATCH_SOURCE: "batch", Side.STREAM_SOURCE: "streaming"}


def render() -> str:
    """The page as it should be."""
    idle = [row.name for row in (*SOURCE_OPTIONS, *CLIENT_OPTIONS) if row.kind is None and not row.refusal]
    refused = [row for row in (*SOURCE_OPTIONS, *CLIENT_OPTIONS) if row.refusal]
    return "".join(
        (
            HEAD,
            _table("Reading", (row for row in SOURCE_OPTIONS if row.kind is not None)),
            _table("Writing", SINK_OPTIONS),
            _table("The client, reading and writing", (row for row in CLIENT_OPTIONS if row.kind is not None)),
            "\n## Without effect\n\nTaken, so that a job need not change, and ignored: ",
            ", ".join(f"`{name}`" for name in idle),
            ".\n",
            "\n## Refused\n\n| Option | What to do |\n|---|---|\n",
            *(f"| `{row.name}` | {_escaped(row.refusal)} |\n" for row in refused),
            _table(
                '`format("minikafka-log")`: log directories', (replace(row, side=Side.SOURCE) for row in LOG_OPTIONS)
            ),
        )
    )


def _table(title: str, rows: Iterable[Option]) -> str:
    lines = "".join(f"{_row(row)}\n" for row in rows)
    return f"\n## {title}\n\n| Option | Default | Allowed | Meaning |\n|---|---|---|---|\n{lines}"


def _row(row: Option) -> str:
    name = f"`{row.name}`" + (f" ({WHERE[row.side]} only)" if row.side in WHERE else "")
    default = f"`{row.default_shown}`" if row.default_shown else ""
    allowed = "anything" if row.kind is None else row.kind.allowed
    return f"| {name} | {default} | {_escaped(allowed)} | {_escaped(' '.join(row.doc.split()))} |"


def _escaped(text: str) -> str:
    return text.replace("|", "\\|")


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    if "--check" in arguments:
        return int(not PAGE.exists() or PAGE.read_text() != render())
    PAGE.write_text(render())
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
