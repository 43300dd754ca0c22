"""What tests on running clusters share; the modules beside this file (``live_*.py``) are importable by name."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))


def pytest_configure(config: pytest.Config) -> None:
    """SIGTERM ends a run as Ctrl-C does: fixtures are torn down, so that no broker process stays behind."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    for function in ("read_text", "open_text"):  # of importlib.resources, hundreds of times by kafka-python
        config.addinivalue_line("filterwarnings", f"ignore:{function} is deprecated:DeprecationWarning")
