"""Every rule is kept by some code and proved by some test, and the page that says so is up to date."""

from __future__ import annotations

import re
import runpy
from pathlib import Path

ROOT = Path(__file__).parents[3]
GENERATOR = runpy.run_path(str(ROOT / "tools" / "generate_semantics.py"))

# Rows that are being built. Empty when everything is there.
PENDING: set[str] = set()


def test_every_row_has_code() -> None:
    code = GENERATOR["code_of_rows"]()
    without = {row for row, where in code.items() if not where} - PENDING
    assert not without, f"no docstring or comment of minikafka names {sorted(without)}"


def test_every_row_has_a_test() -> None:
    tests = GENERATOR["tests_of_rows"]()
    without = {row for row in GENERATOR["rules"]() if not tests[row]} - PENDING
    assert not without, f"no test is marked with {sorted(without)}"


def test_marks_name_rows_that_exist() -> None:
    rows = GENERATOR["rules"]()
    unknown = {row for row in GENERATOR["tests_of_rows"]() if re.fullmatch(r"[READC]\d+", row) and row not in rows}
    assert not unknown


def test_the_page_is_up_to_date() -> None:
    page = (ROOT / "docs" / "semantics.md").read_text(encoding="utf-8")
    assert page == GENERATOR["render"](), "run: python tools/generate_semantics.py"


def test_ranges_name_every_row_in_them() -> None:
    assert GENERATOR["named_rows"]("rows R2-R4, E1; not UTF-8 and not KIP-101") == ["R2", "R3", "R4", "E1"]
