"""The page of options says what is declared."""

from __future__ import annotations

import runpy
from pathlib import Path

from minikafka.spark.options import OPTIONS

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_current() -> None:
    generator = runpy.run_path(str(ROOT / "tools" / "generate_spark_options.py"))
    page = (ROOT / "docs" / "spark-options.md").read_text()
    assert page == generator["render"](), "run: python tools/generate_spark_options.py"
    for option in OPTIONS:
        assert f"`{option.name}`" in page
