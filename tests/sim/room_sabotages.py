"""Planted bugs about writes that are refused half-way, or take a part: each loses or doubles what the rest would be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from fault_sabotages import suite_of
from simulator.disk import MountedDisk

from minikafka.records.batch import Buffer
from minikafka.storage import disk, errors
from minikafka.storage.log import Log
from minikafka.storage.segment import Segment

ROOM = suite_of("room", "whole clusters whose disks have a little room left", "little room")
SHORT_WRITES = suite_of("short writes", "whole clusters whose writes may be short", "short writes")


# -- a little room ----------------------------------------------------------------------------------------------------


@ROOM.plants()
def a_write_that_is_refused_half_way_was_refused_whole(patch: Any) -> None:
    """The log goes on when there is room again, behind what the write has left."""
    fail = Log.fail

    def go_on(log: Log, what: str, error: OSError) -> None:
        if not errors.is_full(error):
            fail(log, what, error)
        log.appender.drop_staged()
        raise errors.StorageFailure(str(error), is_full=True) from error

    patch.setattr(Log, "fail", go_on)
    patch.setattr(Segment, "drop_unnoted", lambda _segment: None)


@ROOM.plants()
def a_file_counts_as_written_once_its_writer_is_done(patch: Any) -> None:
    """A small file that did not fit takes the place of the one before: as a buffered file object, whose last bytes are
    written when it is closed, and nobody looks whether they were."""
    write_bytes = MountedDisk.write_bytes

    def write_what_fits(disk: MountedDisk, path: str, data: Buffer) -> None:
        with suppress(OSError):
            write_bytes(disk, path, data)

    patch.setattr(MountedDisk, "write_bytes", write_what_fits)


# -- short writes -----------------------------------------------------------------------------------------------------


@SHORT_WRITES.replaces(disk, "write_rest")
def a_writer_ignores_the_count(
    _writev: Callable[[Sequence[Buffer]], int], _buffers: Sequence[Buffer], _written: int
) -> None:
    """What one write took counts as all."""


_sound_write_rest = disk.write_rest


@SHORT_WRITES.replaces(disk, "write_rest")
def a_buffer_that_was_written_in_part_is_written_again(
    writev: Callable[[Sequence[Buffer]], int], buffers: Sequence[Buffer], written: int
) -> None:
    """Whoever goes on begins with the first buffer that is not whole."""
    rest = list(buffers)
    while rest and written >= len(rest[0]):
        written -= len(rest.pop(0))
    if rest:
        _sound_write_rest(writev, rest, writev(rest))
