"""Where one frame ends and the next begins: every frame has its size (int32) in front.

Nothing is allocated because of what a size prefix says: the buffer only ever doubles when it is full of bytes that
really arrived. A prefix that cannot be right raises :class:`FrameError`; the connection must then be closed.
"""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from struct import Struct
from typing import Final

from minikafka.wire.errors import WireError
from minikafka.wire.schema import Buffer

FRAME_SIZE_MAX: Final = 100 * 1024 * 1024
PREFIX_SIZE: Final = 4

_read_size = Struct(">i").unpack_from
_HTTP_STARTS: Final = (b"GET ", b"POST", b"PUT ", b"HEAD", b"DELE", b"OPTI", b"CONN", b"PATC", b"PRI ", b"HTTP")


class FrameError(WireError):
    """A size prefix that is negative or too large: this is not the protocol that is spoken here."""


def explain_prefix(prefix: bytes, size_max: int) -> str:
    """Why four bytes are not a size prefix, as far as one can tell."""
    if prefix.startswith(_HTTP_STARTS):
        return f"this port speaks the Kafka protocol, but an HTTP request was sent ({prefix!r})"
    if prefix[:2] == b"\x16\x03":
        return "a TLS handshake was sent to a plaintext port: set security.protocol=PLAINTEXT or use the TLS port"
    (size,) = _read_size(prefix)
    return f"frame of {size} bytes: a size must be from 0 to {size_max}"


class ReceiveBuffer:
    """A connection's receive buffer: bytes come in at its end, frames are taken from its start, in place.

    The owner lets the socket write into :meth:`writable`, reports the count to :meth:`received` and takes frames
    with :meth:`next_frame` or :meth:`frames`. A frame is a slice of the buffer and must not be used after the next
    call of :meth:`writable`.

    Size: it starts at `initial_size` and doubles when it is full, either of one frame or while it is less than
    COMFORTABLE_SIZE; beyond LARGE_SIZE it grows to what its frame takes. One read gets at most READ_SIZE_MAX.
    :meth:`trim` gives the memory back; that happens by itself after QUIET_READS reads that left most of it unused.

    From MAPPED_SIZE on it is a mapping of its own: only pages that bytes arrived in take memory, it grows where it is
    instead of being copied (unless a view of a frame is still referred to), and goes back to the system at once. The
    heap kept what large arrays left, and held old and new while it copied: 20 clients took 350 MiB of a limit of 64.
    """

    QUIET_READS: Final = 64
    COMFORTABLE_SIZE: Final = 64 * 1024
    LARGE_SIZE: Final = 8 * 1024 * 1024
    WHOLE_SIZE: Final = 2 * 1024 * 1024
    """As a request with the largest batch that brokers take by default needs."""
    READ_SIZE_MAX: Final = 1024 * 1024
    MAPPED_SIZE: Final = 256 * 1024

    def __init__(self, size_max: int = FRAME_SIZE_MAX, initial_size: int = 4096) -> None:
        assert initial_size > PREFIX_SIZE
        self.size_max = size_max
        self._initial_size = initial_size
        self.capacity = initial_size
        """How many bytes are allocated."""
        self.comfortable_size = self.COMFORTABLE_SIZE
        """So much it may grow to when it is full, of whatever: one read then gets many small frames."""
        self._buffer = _allocated(initial_size)
        self.needed = initial_size
        """How many bytes will be allocated when the frame that has begun is complete."""
        self._view = memoryview(self._buffer)
        self._start = 0
        self._filled = 0
        self._quiet_reads = 0

    def __len__(self) -> int:
        """How many received bytes have not been taken yet."""
        return self._filled - self._start

    @property
    def frame_size(self) -> int:
        """How many bytes the first frame has that waits, with its prefix; 0 while that is not complete."""
        return PREFIX_SIZE + int(_read_size(self._buffer, self._start)[0]) if len(self) >= PREFIX_SIZE else 0

    @property
    def must_grow_much(self) -> bool:
        """The buffer is full of one frame, and so large that growing takes long: :meth:`grow` when there is time."""
        return self._filled == self.capacity >= self.READ_SIZE_MAX and self._start == 0

    def grow(self) -> int:
        """Make room for more of the frame; how many bytes were copied for that."""
        before = self._buffer
        self._enlarge(self._grown(self._filled - self._start))
        return 0 if self._buffer is before else self._filled

    def writable(self, hint: int = -1) -> memoryview:
        """The free end of the buffer, never empty; `hint` is ignored: what arrived says more about what will.

        Frames given out before are invalid from here on.
        """
        full = self._filled == self.capacity
        if self._start == self._filled:
            self._start = self._filled = 0
            if self._quiet_reads >= self.QUIET_READS:
                self.trim()
        capacity = self.capacity
        if full and capacity < self.comfortable_size:
            self._enlarge(2 * capacity)
        elif (capacity - self._filled) * 4 < capacity:
            self._make_room()
        return self._view[self._filled : self._filled + self.READ_SIZE_MAX]

    def received(self, count: int) -> None:
        """Take note that `count` bytes were written into what :meth:`writable` returned."""
        self._filled += count
        assert self._filled <= self.capacity
        self._quiet_reads = self._quiet_reads + 1 if self._filled * 4 <= self.capacity else 0

    def feed(self, data: Buffer) -> None:
        """Receive a copy of `data`."""
        rest = memoryview(data)
        while rest:
            room = self.writable(len(rest))
            count = min(len(room), len(rest))
            room[:count] = rest[:count]
            self.received(count)
            rest = rest[count:]

    def next_frame(self) -> memoryview | None:
        """The next complete frame without its size prefix, or None. Raises FrameError for a wrong size prefix."""
        start = self._start + PREFIX_SIZE
        if start > self._filled:
            return None
        size = _read_size(self._buffer, self._start)[0]
        if not 0 <= size <= self.size_max:
            raise FrameError(explain_prefix(bytes(self._view[self._start : start]), self.size_max))
        end = start + size
        if end > self._filled:
            if PREFIX_SIZE + size > self.needed:
                self._need(PREFIX_SIZE + size)
            return None
        self._start = end
        return self._view[start:end]

    def frames(self) -> Iterator[memoryview]:
        """The complete frames; may be left between two of them and continued later."""
        while (frame := self.next_frame()) is not None:
            yield frame

    def trim(self) -> None:
        """Give back what an outsized frame made it grow to, if nothing is waiting in the buffer."""
        if self._start == self._filled and len(self._buffer) > self._initial_size:
            self._replace(self._initial_size)
            self.needed = self.capacity
        self._quiet_reads = 0

    def discard(self) -> None:
        """Forget what waits, and give everything back: nobody will ask for it."""
        self._start = self._filled
        self.trim()
        self.needed = self.capacity

    def wanted(self, free: int) -> int:
        """How many bytes it should be allowed now. When it is full, and twice its size is more than ``free``, that is
        what its frame takes, though not because of what a prefix says alone: WHOLE_SIZE, or twice what has arrived."""
        capacity = self.capacity
        if self._filled < capacity or 2 * capacity <= free:
            return capacity
        return max(capacity, min(self.needed, max(self.WHOLE_SIZE, 2 * capacity)))

    def _need(self, size: int) -> None:
        """It will grow by steps to hold so much."""
        while self.needed < size:
            self.needed = 2 * self.needed if self.needed < self.LARGE_SIZE else size

    def _make_room(self) -> None:
        waiting = self._filled - self._start
        if self._start and waiting * 2 <= len(self._buffer):
            self._view[:waiting] = self._view[self._start : self._filled]
            self._start, self._filled = 0, waiting
        elif self._filled == len(self._buffer):
            self._enlarge(self._grown(waiting))

    def _grown(self, waiting: int) -> int:
        """Twice the size; no more than the frame takes whose beginning is there, once that is large."""
        size = 2 * len(self._buffer)
        if size <= self.LARGE_SIZE or waiting < PREFIX_SIZE:
            return size
        frame_size: int = _read_size(self._buffer, self._start)[0]
        return max(len(self._buffer) + self.COMFORTABLE_SIZE, min(size, PREFIX_SIZE + frame_size))

    def _enlarge(self, size: int) -> None:
        """Where it is, if it can: then nothing is copied."""
        self.needed = max(self.needed, size)
        buffer = self._buffer
        if isinstance(buffer, mmap.mmap) and self._start == 0:
            self._view.release()
            try:
                buffer.resize(size)
                self.capacity = size
                return
            except (BufferError, SystemError):  # a frame is still referred to; or this system moves no mappings
                pass
            finally:
                self._view = memoryview(buffer)
        self._replace(size)

    def _replace(self, size: int) -> None:
        waiting = self._filled - self._start
        buffer = _allocated(size)
        view = memoryview(buffer)
        view[:waiting] = self._view[self._start : self._filled]
        self._buffer, self._view, self.capacity = buffer, view, size
        self._start, self._filled = 0, waiting


def _allocated(size: int) -> bytearray | mmap.mmap:
    """Large ones are private: a shared mapping that grew has no memory behind what it grew by."""
    if size < ReceiveBuffer.MAPPED_SIZE:
        return bytearray(size)
    return mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
