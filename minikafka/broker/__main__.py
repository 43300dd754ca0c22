"""``python -m minikafka.broker --config FILE``: run one node in this process until it is told to stop."""

from __future__ import annotations

import argparse
import sys
from typing import Any, Final, cast

INTERRUPTED: Final = 130  # the shell's exit code


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line and run. Ctrl-C before the node hears of it ends it without words."""
    parser = argparse.ArgumentParser(prog="python -m minikafka.broker", description="Run one minikafka node.")
    parser.add_argument("--config", metavar="FILE", help="a .properties or .toml file with Kafka's setting names")
    parser.add_argument("--set", metavar="NAME=VALUE", action="append", default=[], help="override one setting")
    parser.add_argument("--until-eof", action="store_true", help="end, as if killed, when standard input ends")
    given = parser.parse_args(arguments)
    try:
        from minikafka.broker.run import run_node

        return run_node(given.config, given.set, until_eof=given.until_eof)
    except KeyboardInterrupt:
        return INTERRUPTED


def prepare() -> None:
    """Keep rich out, which structlog would import for tracebacks that a node does not write: a tenth of its memory."""
    cast(Any, sys.modules).setdefault("rich", None)


if __name__ == "__main__":
    prepare()
    sys.exit(main())
