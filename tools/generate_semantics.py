"""Write ``docs/semantics.md``: every rule of ``docs/semantics.toml``, the code that keeps it, the tests that prove it.

python tools/generate_semantics.py            # rewrite the page
python tools/generate_semantics.py --check    # exit 1 when the committed page differs

Code keeps a rule when a docstring or a comment of it names the rule's row ("row R20", "rows R2-R5"); a test proves it
when it is marked ``@pytest.mark.spec("R20")``. Sources are only parsed, nothing is imported.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
import tomllib
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
RULES = ROOT / "docs" / "semantics.toml"
PAGE = ROOT / "docs" / "semantics.md"

HEAD = """# What the cluster does, rule by rule

Generated from `docs/semantics.toml`, docstrings and tests by `tools/generate_semantics.py`; do not edit.

The rules are those of Apache Kafka's replication. Their ids are named in the code, where a rule is kept, and in the
marks of the tests that prove it: `pytest -m spec` runs them all. A test fails when a row has no code or no test.
"""

MENTION = re.compile(r"\b([A-Z])(\d{1,2})(?:-\1(\d{1,2}))?\b")
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
Found = dict[str, dict[Path, dict[str, None]]]  # row: file: names in it, in order


def sections() -> dict[str, dict[str, str]]:
    """Title of each section: its rules by row."""
    found = tomllib.loads(RULES.read_text(encoding="utf-8"))["section"]
    return {section["title"]: section["rows"] for section in found}


def rules() -> dict[str, str]:
    """All rules by row."""
    return {row: rule for rows in sections().values() for row, rule in rows.items()}


# -- code -------------------------------------------------------------------------------------------------------------


@cache
def code_of_rows() -> Found:
    """By row: the modules, and the classes and functions in them, whose docstrings or comments name it."""
    found: Found = {row: {} for row in rules()}
    for path in _sources(ROOT / "minikafka"):
        for row, name in _mentions(path.read_text(encoding="utf-8")):
            if row in found:
                found[row].setdefault(path, {})[name] = None
    return found


def _mentions(source: str) -> Iterator[tuple[str, str]]:
    """(row, qualified name of the definition that names it, empty for the module) in the order of the source."""
    if not MENTION.search(source):
        return
    tree = ast.parse(source)
    for name, node in _definitions(tree, ""):
        yield from ((row, name) for row in named_rows(ast.get_docstring(node) or ""))
    spans = [(node.lineno, node.end_lineno or 0, name) for name, node in _definitions(tree, "") if name]  # type: ignore[union-attr]
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            line = token.start[0]
            inner = [name for first, last, name in spans if first <= line <= last]
            yield from ((row, inner[-1] if inner else "") for row in named_rows(token.string))


def _definitions(node: ast.Module | Definition, name: str) -> Iterator[tuple[str, ast.Module | Definition]]:
    yield name, node
    for child in node.body:
        if isinstance(child, Definition):
            yield from _definitions(child, f"{name}.{child.name}".lstrip("."))


def named_rows(text: str) -> list[str]:
    """The rows that a text names: "R1" and "R15-R17"."""
    rows = []
    for letter, first, last in MENTION.findall(text):
        rows += [f"{letter}{number}" for number in range(int(first), int(last or first) + 1)]
    return rows


# -- tests ------------------------------------------------------------------------------------------------------------


@cache
def tests_of_rows() -> dict[str, dict[Path, None]]:
    """By row, and by any other id that a test is marked with: the modules of the tests."""
    found: dict[str, dict[Path, None]] = {row: {} for row in rules()}
    for path in _sources(ROOT / "tests"):
        source = path.read_text(encoding="utf-8")
        if "mark.spec(" in source:
            for row in _marks(ast.parse(source)):
                found.setdefault(row, {})[path] = None
    return found


def _marks(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Attribute)
            and node.func.attr == "spec"  # it would take long to write out the others
            and ast.unparse(node.func) == "pytest.mark.spec"
        ):
            yield from (ast.literal_eval(argument) for argument in node.args)


def _sources(root: Path) -> Iterable[Path]:
    return sorted(path for path in root.rglob("*.py") if path.parent != ROOT / "minikafka" / "wire" / "messages")


# -- the page ---------------------------------------------------------------------------------------------------------


def render() -> str:
    """The page as it should be."""
    code, tests = code_of_rows(), tests_of_rows()
    parts = [HEAD]
    for title, rows in sections().items():
        parts.append(f"\n## {title}\n\n| row | rule | code | tests |\n|---|---|---|---|\n")
        for row, rule in rows.items():
            where = "<br>".join(_code(path, names) for path, names in code[row].items())
            proofs = "<br>".join(_link(path, ROOT / "tests") for path in tests[row])
            parts.append(f"| {row} | {rule.replace('|', '&#124;')} | {where} | {proofs} |\n")
    return "".join(parts)


def _code(path: Path, names: Iterable[str]) -> str:
    """The module, and the names in it unless they are all it has."""
    within = ", ".join(f"`{name}`" for name in names if name)
    return _link(path, ROOT / "minikafka") + (f": {within}" if within else "")


def _link(path: Path, root: Path) -> str:
    return f"[{path.relative_to(root).as_posix()}](../{path.relative_to(ROOT).as_posix()})"


def main(arguments: list[str]) -> int:
    """Write the page, or check it."""
    if "--check" in arguments:
        return int(not PAGE.exists() or PAGE.read_text(encoding="utf-8") != render())
    PAGE.write_text(render(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
