"""The program ``minikafka``, and ``python -m minikafka``: the command line, and quiet after Ctrl-C from the start."""

from __future__ import annotations


def main() -> None:
    """Run the command line. Loading it takes a moment in which somebody may think better of it, too."""
    try:
        from minikafka.cli.main import main as run
    except KeyboardInterrupt:
        raise SystemExit(130) from None
    run()


if __name__ == "__main__":
    main()
