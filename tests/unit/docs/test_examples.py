"""What the documentation shows in Python can be read by Python, and is there to be imported."""

from __future__ import annotations

import ast
import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
EXAMPLES = [
    (path, example)
    for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for example in re.findall(r"```python\n(.*?)```", path.read_text(), re.DOTALL)
]


def test_there_are_examples() -> None:
    assert {path.name for path, _ in EXAMPLES} == {"README.md", "client.md", "operations.md", "spark.md", "testing.md"}


@pytest.mark.parametrize(("path", "example"), EXAMPLES, ids=[path.name for path, _ in EXAMPLES])
def test_what_examples_import_is_there(path: Path, example: str) -> None:
    for node in ast.walk(ast.parse(example)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("minikafka"):
            module = importlib.import_module(node.module or "")
            assert [name.name for name in node.names if not hasattr(module, name.name)] == []
