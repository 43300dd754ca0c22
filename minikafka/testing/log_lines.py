"""What a failing test shows of its cluster: which brokers are not up, and what they logged since it began."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final

from minikafka.chaos.layout import ClusterError

if TYPE_CHECKING:
    from minikafka.testing.kit import MiniKafka

_LINES_MAX: Final = 40


class LogLines:
    """Of a cluster, from now on."""

    def __init__(self, kafka: MiniKafka) -> None:
        layout = kafka.cluster.layout
        self._kafka = kafka
        self._logs = [layout.log_file(node_id) for node_id in layout.node_ids]
        self._starts = {path: path.stat().st_size for path in self._logs if path.exists()}

    def sections(self) -> list[tuple[str, str]]:
        """Titles and texts. A test may have ended the cluster, and removed its files."""
        state = self._state()
        logged = {path: _lines_since(path, self._starts.get(path, 0)) for path in self._logs}
        found = [(f"minikafka {path.parent.name}", "\n".join(lines)) for path, lines in logged.items() if lines]
        return [("minikafka", state), *found] if state else found

    def _state(self) -> str:
        """Which brokers are down or paused: these log nothing."""
        try:
            running = self._kafka.cluster.running()
        except ClusterError as error:
            return str(error)
        down = [f"broker {node_id} is down" for node_id in self._kafka.cluster.node_ids if node_id not in running]
        return "; ".join(down + [f"broker {node_id} is paused" for node_id, node in running.items() if node.paused])


def _lines_since(path: Path, offset: int) -> list[str]:
    try:
        with path.open("rb") as file:
            file.seek(offset)
            lines = file.read().decode(errors="replace").splitlines()
    except FileNotFoundError:
        return []
    more = [f"({len(lines) - _LINES_MAX} more lines in {path})"] if len(lines) > _LINES_MAX else []
    return more + lines[-_LINES_MAX:]
