"""The program ``minikafka``, and ``python -m minikafka``: the command line, and quiet after Ctrl-C from the start."""

from __future__ import annotations

import signal


def main() -> None:
    """Run the command line. Loading it takes a moment in which somebody may think better of it, too."""
    handler = signal.getsignal(signal.SIGINT)
    if handler is signal.default_int_handler:  # whose KeyboardInterrupt is a RuntimeError in the making of a class
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from minikafka.cli.main import main as run

    signal.signal(signal.SIGINT, handler)
    run()


if __name__ == "__main__":
    main()
