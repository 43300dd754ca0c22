"""What may be damaged on a machine's disk, and in which ways: any file there is, and what repairs of disks leave.

Half of the strokes take any file, as much of the rare kinds as of the frequent ones. The others are those by which a
log seems whole and is not: its last segment removed, emptied or cut between two batches, all files of another segment
removed, a foreign file in its directory, the directory gone.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from posixpath import basename, dirname
from typing import Final

from sim_cluster import Machine
from sim_invariants import METADATA_NAME, segments
from simulator.disk.damage import Damage, How, damage, displace, plant, roll_back
from simulator.disk.inodes import Directory

from minikafka.records.batch import parse_header

LAST_BYTES: Final = 300
"""Where a crash tears a log; damage there may be taken for it."""
BY_SUFFIX: Final = (".log", ".index", ".timeindex", ".snapshot", ".checkpoint", "-checkpoint")
NOT_DAMAGED: Final = (".lock", ".tmp", ".corrupt", ".damaged", ".deleted")
"""Files that hold nothing, or nothing that anybody waits for."""
EPOCH_BYTES: Final = (12, 13, 14, 15, 15, 15)
"""Where the leader epoch of a batch is; most epochs are small."""
WILD_OFFSETS: Final = (10**20 - 1, 2**63, 2**63 - 1, 2**40)


class Strokes:
    """The ways to damage one machine's disk. A stroke answers what it did: nothing when there is nothing to strike."""

    def __init__(self, machine: Machine, log_dirs: Sequence[str], rng: random.Random) -> None:
        self._machine = machine
        self._log_dirs = log_dirs
        self._rng = rng
        self._shapes: tuple[Callable[[], list[Damage]], ...] = (
            self._active_segment,
            self._active_segment,
            self._segment,
            self._foreign_file,
            self._directory,
        )

    def strike(self, hows: Sequence[How], spared: Collection[str] = ()) -> list[Damage]:
        """Damage something. ``hows``: in which ways bytes of files may be; "lost" among them: files may go, too.

        ``spared``: names of files that stay as they are.
        """
        is_shaped = "lost" in hows and self._rng.random() < 0.5
        done = self._rng.choice(self._shapes)() if is_shaped else []
        return done or self._file(hows, spared)

    def strike_own_writes(self, hows: Sequence[How]) -> list[Damage]:
        """Change the newest bytes of a log that its node leads."""
        node, rng = self._machine.node, self._rng
        led = [] if node is None else [one.log.directory for one in node.replicas if one.leader is not None]
        files = [f"{path}/{max(found)}" for path in led if (found := segments(self._machine, path))]
        files = [path for path in files if self._machine.disk.inode(path).content]
        in_place = [how for how in hows if how not in ("cut", "emptied", "lost")]
        if not files:
            return []
        return [damage(self._machine.disk, rng.choice(files), rng.choice(in_place), rng, of_last=LAST_BYTES)]

    def strike_epoch(self) -> list[Damage]:
        """Flip a bit in the leader epoch of a batch, which no checksum covers."""
        directory = self._a_log()
        if directory is None:
            return []
        path = f"{directory}/{self._rng.choice(list(segments(self._machine, directory)))}"
        if not self._machine.disk.inode(path).content:
            return []
        byte = self._rng.choice(EPOCH_BYTES)
        return [damage(self._machine.disk, path, "flipped", self._rng, at=self._boundary(path) + byte)]

    def lose_logs(self) -> list[Damage]:
        """Somebody removes all logs of topics from one log directory. What the node knows of them stays."""
        found = [path for path in self.partition_directories() if basename(path) != METADATA_NAME]
        where = self._rng.choice(self._log_dirs)
        return [damage(self._machine.disk, path, "lost", self._rng) for path in found if dirname(path) == where]

    def strike_oddly(self, older: Mapping[str, bytes], spared: Collection[str] = ()) -> list[Damage]:
        """Let a file be an older copy of itself, or have a directory in its place. ``older``: what files held once."""
        disk, rng = self._machine.disk, self._rng
        kinds = self._files_by_kind(spared)
        path = rng.choice(kinds[rng.choice(sorted(kinds))])
        if rng.random() < 0.3:
            return [displace(disk, path)]
        now = bytes(disk.inode(path).content)
        was = older.get(path, now)
        is_as_expected = now.startswith(was) or not path.endswith(".log")  # else it was cut or compacted meanwhile
        return [roll_back(disk, path, was)] if was != now and is_as_expected else []

    def strike_log(self, name: str) -> list[Damage]:
        """Let a log lose some of its end, or all of it."""
        directory = next((path for path in self.partition_directories() if basename(path) == name), None)
        if directory is None:
            return []
        if self._rng.random() < 0.3:
            return [damage(self._machine.disk, directory, "lost", self._rng)]
        return self._end_of(directory)

    def partition_directories(self) -> Iterator[str]:
        for path in self._log_dirs:
            found = self._machine.disk.find(path)
            entries = found.entries if isinstance(found, Directory) else {}
            yield from (f"{path}/{name}" for name, node in entries.items() if isinstance(node, Directory))

    # -- any file -----------------------------------------------------------------------------------------------------

    def _file(self, hows: Sequence[How], spared: Collection[str]) -> list[Damage]:
        rng, kinds = self._rng, self._files_by_kind(spared)
        path = rng.choice(kinds[rng.choice(sorted(kinds))])
        of_last = LAST_BYTES if path.endswith(".log") and rng.random() < 0.5 else None
        return [damage(self._machine.disk, path, rng.choice(hows), rng, of_last=of_last)]

    def _files_by_kind(self, spared: Collection[str]) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in self._machine.disk.files():
            name = basename(path)
            if not name.endswith(NOT_DAMAGED) and "-delete/" not in path and name not in spared:
                kind = next((suffix for suffix in BY_SUFFIX if name.endswith(suffix)), name)
                is_metadata = f"/{METADATA_NAME}/" in path
                is_active = kind == ".log" and name == max(segments(self._machine, dirname(path)))
                found.setdefault(f"{kind} {is_active} {is_metadata}", []).append(path)
                if is_active:
                    found.setdefault(f"end of {kind} {is_metadata}", []).append(path)
        return {kind: sorted(paths) for kind, paths in found.items()}

    # -- shapes -------------------------------------------------------------------------------------------------------

    def _active_segment(self) -> list[Damage]:
        directory = self._a_log()
        return [] if directory is None else self._end_of(directory)

    def _end_of(self, directory: str) -> list[Damage]:
        active = f"{directory}/{max(segments(self._machine, directory))}"
        how: How = self._rng.choice(("lost", "emptied", "cut", "cut"))
        at = None if how != "cut" else self._boundary(active)
        return [damage(self._machine.disk, active, how, self._rng, at=at)]

    def _boundary(self, path: str) -> int:
        """Where one of the newest batches of a file begins."""
        content = self._machine.disk.inode(path).content
        starts = []
        position = 0
        while position + 61 <= len(content):
            starts.append(position)
            position += parse_header(content, position).size_in_bytes
        return self._rng.choice(starts[-20:] or [0])

    def _segment(self) -> list[Damage]:
        """All files of one segment: the first, one in the middle, or the last one."""
        directory = self._a_log(min_segments=2)
        if directory is None:
            return []
        names = list(segments(self._machine, directory))
        name = self._rng.choice((names[0], names[-1], self._rng.choice(names), self._rng.choice(names)))
        stem = name.removesuffix(".log")
        files = sorted(self._machine.disk.directory(directory).entries)
        return [
            damage(self._machine.disk, f"{directory}/{each}", "lost", self._rng)
            for each in files
            if each.startswith(f"{stem}.") and not each.endswith(NOT_DAMAGED)
        ]

    def _foreign_file(self) -> list[Damage]:
        directory = self._a_log()
        if directory is None:
            return []
        first, last = min(segments(self._machine, directory)), max(segments(self._machine, directory))
        between = self._rng.randrange(int(first[:20]), int(last[:20]) + 1_000)
        suffix = self._rng.choice((".log", ".log", ".index", ".snapshot"))
        path = f"{directory}/{self._rng.choice((*WILD_OFFSETS, between)):020d}{suffix}"
        return [] if self._machine.disk.find(path) is not None else [plant(self._machine.disk, path)]

    def _directory(self) -> list[Damage]:
        """A partition's; or a whole log directory of a node that is down."""
        found = list(self.partition_directories())
        if not self._machine.is_up:
            found += [*self._log_dirs] * 2
        return [damage(self._machine.disk, self._rng.choice(found), "lost", self._rng)] if found else []

    def _a_log(self, min_segments: int = 1) -> str | None:
        """The directory of a log that holds something; now and then the quorum's."""
        found = [
            path
            for path in self.partition_directories()
            if "." not in basename(path)
            and len(segments(self._machine, path)) >= min_segments
            and any(file.content for file in segments(self._machine, path).values())
        ]
        of_topics = [path for path in found if basename(path) != METADATA_NAME]
        return self._rng.choice(of_topics if of_topics and self._rng.random() < 0.9 else found) if found else None
