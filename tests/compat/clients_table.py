"""What the tests find of a client's features, and the README's table of them.

Each test of a feature tells of it here. While ``tools/generate_clients.py`` runs the tests, what they tell goes to the
file named by ``CLIENTS_TOLD``. Otherwise it must stand in the table. Versions are not compared: those of Python's
clients and of kcat are what a package index has today.
"""

from __future__ import annotations

import json
import os
import re
import runpy
import shutil
import subprocess
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
GENERATOR: dict[str, Any] = runpy.run_path(str(ROOT / "tools" / "generate_clients.py"))
LISTS: dict[str, tuple[str, ...]] = GENERATOR["LISTS"]
FEATURES = [each for name in GENERATOR["FEATURES"] for each in LISTS.get(name, (name,))]
CLAIMS: dict[str, set[str]] = {}
"""The features that the tests of each client of Python's, and of kcat, are marked with, as far as collected."""
HINT = "run: python tools/generate_clients.py"


@cache
def table() -> dict[str, set[str]]:
    """The features of each client in the README."""
    found: dict[str, set[str]] = GENERATOR["read"]((ROOT / "README.md").read_text())
    return found


def tell(client: str, feature: str, client_version: str) -> None:
    """This client has this feature, and it works."""
    if path := os.environ.get("CLIENTS_TOLD"):
        line = json.dumps({"client": client, "feature": feature, "version": client_version})
        with Path(path).open("a") as told:
            told.write(f"{line}\n")
    else:
        assert feature in table()[client], HINT


def has_none(client: str, feature: str) -> None:
    """This client does not have this feature."""
    if "CLIENTS_TOLD" not in os.environ:
        assert feature not in table()[client], HINT


def has_no_others(client: str, features: set[str]) -> None:
    """The table says of no further one that this client has it."""
    if "CLIENTS_TOLD" not in os.environ:
        assert table()[client] == features, HINT


@cache
def installed_version(client: str) -> str:
    """The version of a client that is a package of Python's, or kcat."""
    if client != "kcat":
        return version(client)
    said = subprocess.run((shutil.which("kcat") or "kafkacat", "-V"), capture_output=True, text=True, check=True).stdout
    return re.search(r"Version ([\d.]+)", said)[1]  # type: ignore[index]
