"""The settings page says what is declared."""

from __future__ import annotations

import runpy
from pathlib import Path

from minikafka.config import BrokerConfig, TopicConfig

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_is_current() -> None:
    generator = runpy.run_path(str(ROOT / "tools" / "generate_settings.py"))
    page = (ROOT / "docs" / "settings.md").read_text()
    assert page == generator["render"](), "run: python tools/generate_settings.py"
    for name in [*BrokerConfig.rows(), *TopicConfig.rows()]:
        assert f"| `{name}`" in page
