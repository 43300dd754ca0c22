"""The picture of the README: drawn from a recording, and the committed one is the committed recording's."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = ROOT / "tools" / "draw_failover.py"
SVG = "{http://www.w3.org/2000/svg}"
TINY = {
    "killed_ms": 100,
    "started_ms": 200,
    "silent_ms": 50,
    "end_ms": 500,
    "bucket_ms": 100,
    "acks": [4, 0, 30, 4, 4],
    "roles": {
        "1": [[0, "leader"], [100, "down"], [200, "starts"], [300, "catches up"], [400, "in sync"]],
        "2": [[0, "in sync"], [150, "leader"]],
    },
    "acknowledged": 42,
    "lost": 0,
    "python": "3.11.7",
}


def drawn(recording: Path) -> str:
    command = [sys.executable, str(SCRIPT), "--from", str(recording)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def test_a_recording_becomes_a_picture(tmp_path: Path) -> None:
    recording = tmp_path / "run.json"
    recording.write_text(json.dumps(TINY))
    picture = ElementTree.fromstring(drawn(recording))
    assert picture.tag == f"{SVG}svg"
    texts = [text.text for text in picture.iter(f"{SVG}text")]
    assert texts[0] == "kill -9 of the leader: writes go on after 0.05 s, no acknowledged record is lost"
    assert {"kill -9 of node 1", "another leader", "node 1 starts again", "in sync again", "node 2", "30"} <= {*texts}
    bars = [rect for rect in picture.iter(f"{SVG}rect") if rect.get("class") == "ack"]
    assert len(bars) == 4
    width = float(picture.attrib["viewBox"].split()[2])
    for rect in picture.iter(f"{SVG}rect"):
        assert float(rect.attrib["x"]) + float(rect.attrib["width"]) <= width


@pytest.mark.parametrize(
    ("lost", "said"), [(1, "1 acknowledged record is lost"), (7, "7 acknowledged records are lost")]
)
def test_the_picture_says_how_many_acknowledged_records_were_lost(tmp_path: Path, lost: int, said: str) -> None:
    recording = tmp_path / "run.json"
    recording.write_text(json.dumps(TINY | {"lost": lost}))
    assert said in drawn(recording)


def test_the_picture_is_that_of_the_recording() -> None:
    recording, picture = ROOT / "docs/failover.json", ROOT / "docs/failover.svg"
    assert picture.read_text(encoding="utf-8") == drawn(recording), "run: python tools/draw_failover.py"
    assert json.loads(recording.read_text(encoding="utf-8"))["lost"] == 0
