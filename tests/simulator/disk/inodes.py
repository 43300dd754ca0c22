"""What a machine's disk holds, and what of it a power cut may leave.

The crash model. *Bytes*: of the appends, overwrites and truncations since a file's last sync each may have happened or
not, whatever became of the others; an append may also have happened in some of its 512-byte sectors only, or have grown
the file without its data (zeros). *Names*: of what was created, renamed and removed in a directory since its last sync,
any first part may have happened, whatever became of other directories and of the bytes of files. A sync that failed
leaves its changes as uncertain as they were, for good: the kernel takes the pages for clean, so that a later sync says
"done" without them. A sync that takes a while covers what was changed before it began, and no more.

Whatever may go one way or the other is decided by :class:`Choices`: a random generator draws one future, something that
goes through all answers enumerates them.
"""

from __future__ import annotations

from typing import Final, NamedTuple, Protocol

SECTOR: Final = 512
WRITTEN_BACK: Final = 1_000
"""Of so many changes that nobody synced, a file that is written over in place has the older half on its disk."""
ABSENT, WHOLE, ZEROS, TORN = range(4)  # what may have become of an append


class Choices(Protocol):
    """Decides what happens; a ``random.Random`` does."""

    def randrange(self, stop: int, /) -> int:
        """One of the numbers below ``stop``."""
        ...


class Change(NamedTuple):
    """At ``position``, ``cut`` gave way to ``data``: a truncation has no data, an append cuts nothing, an overwrite may
    be both and cuts no more than its own length."""

    position: int
    cut: bytes
    data: bytes


class Inode:
    """A file: ``content`` as processes see it, and the changes that are not durable.

    What is durable is not kept twice: it is the content with the changes undone. ``content`` is shared with copies of
    the file until the first change.
    """

    __slots__ = ("content", "is_linked", "is_shared", "settled", "synced", "unreadable", "unsynced")

    def __init__(self, content: bytearray | None = None) -> None:
        self.content = bytearray() if content is None else content
        self.is_shared = content is not None
        self.is_linked = True
        self.unreadable = range(0)  # positions that the disk does not read any more
        self.synced = 0  # changes that syncs took away from ``unsynced``
        self.unsynced: list[Change] = []
        self.settled: list[tuple[Change, bool]] = []  # from the first failed sync on: is it surely durable?

    def append(self, data: bytes) -> None:
        if self.is_shared:
            self._own()
        self.unsynced.append(Change(len(self.content), b"", data))
        self.content += data

    def overwrite(self, position: int, data: bytes) -> None:
        """Not across a border of sectors. The system writes back by itself what is never synced."""
        assert position // SECTOR == (position + len(data) - 1) // SECTOR
        if position >= len(self.content):
            self.append(bytes(position - len(self.content)) + data)
            return
        if self.is_shared:
            self._own()
        end = position + len(data)
        self.unsynced.append(Change(position, bytes(self.content[position:end]), data))
        self.content[position:end] = data
        if len(self.unsynced) >= WRITTEN_BACK:
            self.sync(self.synced + WRITTEN_BACK // 2)

    def truncate(self, size: int) -> None:
        if self.is_shared:
            self._own()
        grown = size - len(self.content)
        if grown > 0:
            self.append(bytes(grown))
        elif grown < 0:
            self.unsynced.append(Change(size, bytes(self.content[size:]), b""))
            del self.content[size:]
            self.unreadable = range(self.unreadable.start, min(self.unreadable.stop, size))

    @property
    def changes(self) -> int:
        """How many changes there were so far: what :meth:`sync` is to cover."""
        return self.synced + len(self.unsynced)

    def sync(self, covered: int | None = None, *, fails: bool = False) -> None:
        """The first ``covered`` changes are durable: all of them, if not given."""
        done = self.unsynced if covered is None else self.unsynced[: max(0, covered - self.synced)]
        if fails or self.settled:
            self.settled += [(change, not fails) for change in done]
        self.synced += len(done)
        del self.unsynced[: len(done)]

    def flip(self, position: int) -> None:
        """One bit is wrong from now on, in the page cache and below."""
        assert not self.is_dirty, "sync the file before damaging it"
        self._own()
        self.content[position] ^= 1

    def become(self, content: bytes | bytearray) -> None:
        """Media and page cache hold that from now on, whatever was written: nothing is in doubt."""
        self.content = bytearray(content)
        self.is_shared = False
        self.sync()
        self.settled.clear()

    @property
    def is_dirty(self) -> bool:
        return bool(self.unsynced or self.settled)

    def copy(self) -> Inode:
        """Another file with the same bytes, and the same of them in doubt."""
        self.is_shared = True
        copy = Inode(self.content)
        copy.unsynced = self.unsynced.copy()
        copy.settled = self.settled.copy()
        copy.unreadable = self.unreadable
        return copy

    def after_power_loss(self, choices: Choices) -> Inode:
        """What is left of the file."""
        if not self.is_dirty:
            self.is_shared = True
            left = Inode(self.content)
            left.unreadable = self.unreadable
            return left
        changes = [*self.settled, *((change, False) for change in self.unsynced)]
        content = bytearray(self.content)
        for change, _is_durable in reversed(changes):
            content[change.position : change.position + len(change.data)] = change.cut
        for change, is_durable in changes:
            if is_durable:
                _apply(content, change)
            elif change.data:
                _apply_perhaps(content, change, choices)
            elif choices.randrange(2):
                _apply(content, change)
        left = Inode(content)
        left.is_shared = False
        return left

    def _own(self) -> None:
        self.content = bytearray(self.content)
        self.is_shared = False


def _apply(content: bytearray, change: Change) -> None:
    if change.data:
        _write(content, change.position, change.data)
    else:
        _resize(content, change.position)


def _apply_perhaps(content: bytearray, change: Change, choices: Choices) -> None:
    position, _cut, data = change
    first = position // SECTOR
    sectors = (position + len(data) - 1) // SECTOR - first + 1
    fate = choices.randrange(4 if sectors > 1 else 2 if change.cut else 3)
    if fate == WHOLE:
        _write(content, position, data)
    elif fate == ZEROS:
        _grow(content, position + len(data))
    elif fate == TORN:
        _tear(content, position, data, choices)


def _tear(content: bytearray, position: int, data: bytes, choices: Choices) -> None:
    """Each sector arrived or did not, the file as long as its last sector that did."""
    end = position + len(data)
    for start in range(position - position % SECTOR, end, SECTOR):
        low, high = max(start, position), min(start + SECTOR, end)
        if choices.randrange(2):
            _write(content, low, data[low - position : high - position])


def _write(content: bytearray, position: int, data: bytes) -> None:
    _grow(content, position)
    content[position : position + len(data)] = data


def _grow(content: bytearray, size: int) -> None:
    if len(content) < size:
        content.extend(bytes(size - len(content)))


def _resize(content: bytearray, size: int) -> None:
    _grow(content, size)
    del content[size:]


class NameChange(NamedTuple):
    """``name`` stands for ``node`` now (for nothing when None); ``old``, if any, is gone: it was renamed."""

    name: str
    node: Node | None
    old: str | None = None


class Directory:
    """Names and what they stand for, now and after a power cut that forgets every unsynced change."""

    __slots__ = ("durable", "entries", "is_stuck", "synced", "unsynced")

    def __init__(self) -> None:
        self.synced = 0
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.unsynced: list[NameChange] = []
        self.is_stuck = False

    def change(self, name: str, node: Node | None, old: str | None = None) -> None:
        change = NameChange(name, node, old)
        _rename(self.entries, change)
        self.unsynced.append(change)

    @property
    def changes(self) -> int:
        """How many changes there were so far: what :meth:`sync` is to cover."""
        return self.synced + len(self.unsynced)

    def sync(self, covered: int | None = None, *, fails: bool = False) -> None:
        """The first ``covered`` changes are durable: all of them, if not given."""
        self.is_stuck |= fails
        if not self.is_stuck:
            done = self.unsynced if covered is None else self.unsynced[: max(0, covered - self.synced)]
            for change in done:
                _rename(self.durable, change)
            self.synced += len(done)
            del self.unsynced[: len(done)]

    def lose(self, name: str) -> Node | None:
        """The medium has lost what ``name`` stands for, and every trace of it."""
        kept = [change for change in self.unsynced if name not in (change.name, change.old)]
        self.synced += len(self.unsynced) - len(kept)
        self.unsynced = kept
        self.durable.pop(name, None)
        return self.entries.pop(name, None)

    def copy(self, copied: dict[Node, Node]) -> Directory:
        """Another directory, the same of it in doubt. ``copied``: what was copied so far."""
        copy = Directory()
        copy.entries = {name: _copy(node, copied) for name, node in self.entries.items()}
        copy.durable = {name: _copy(node, copied) for name, node in self.durable.items()}
        copy.unsynced = [change._replace(node=change.node and _copy(change.node, copied)) for change in self.unsynced]
        copy.is_stuck = self.is_stuck
        return copy

    def after_power_loss(self, choices: Choices) -> Directory:
        """What is left of it and of everything below."""
        entries = self.durable
        if self.unsynced:
            entries = dict(entries)
            for change in self.unsynced[: choices.randrange(len(self.unsynced) + 1)]:
                _rename(entries, change)
        return _directory({name: node.after_power_loss(choices) for name, node in entries.items()})


Node = Inode | Directory


def _copy(node: Node, copied: dict[Node, Node]) -> Node:
    copy = copied.get(node)
    if copy is None:
        copy = copied[node] = node.copy() if isinstance(node, Inode) else node.copy(copied)
    return copy


def _rename(entries: dict[str, Node], change: NameChange) -> None:
    if change.old is not None:
        entries.pop(change.old, None)
    if change.node is None:
        entries.pop(change.name, None)
    else:
        entries[change.name] = change.node


def _directory(entries: dict[str, Node]) -> Directory:
    directory = Directory()
    directory.entries = entries
    directory.durable = dict(entries)
    return directory
