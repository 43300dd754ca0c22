"""The page of metrics says what the catalogue has, and its expressions name metrics that there are."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

from minikafka.metrics.catalogue import CATALOGUE

ROOT = Path(__file__).resolve().parents[3]
PAGE = ROOT / "docs" / "metrics.md"


def test_the_page_is_current() -> None:
    generator = runpy.run_path(str(ROOT / "tools" / "generate_metrics.py"))
    assert PAGE.read_text() == generator["render"](PAGE.read_text()), "run: python tools/generate_metrics.py"
    assert all(f"| `{metric.shown_name}` |" in PAGE.read_text() for metric in CATALOGUE)


def test_names_in_the_text_are_in_the_catalogue() -> None:
    known = {metric.shown_name for metric in CATALOGUE}
    named = set(re.findall(r"\b(?:kafka|minikafka)_\w+[a-z]\b(?!\*)", PAGE.read_text())) - {
        "minikafka_event_loop_lag_seconds_bucket"
    }
    assert {name for name in named if not any(each.startswith(name) for each in known)} == set()
