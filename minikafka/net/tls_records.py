"""TLS of who accepts a connection, a few records at a time, so that nobody renews keys again and again.

In TLS 1.3 either side may renew its keys at any time (RFC 8446, 4.6.3). A record of 27 bytes asks for that, and costs
this node some 60 us: more per byte than a handshake. OpenSSL sets no bound, and event loops give it all that has
arrived: 256 KiB of such records held the loop for more than half a second, before their sender had logged in. So
OpenSSL gets few records at once, and a connection ends whose records bring nothing too often.

During the handshake it gets one at a time: what came behind the last one is none of the handshake. That is dear where
a message comes in pieces of a byte. Messages that are long are dear for OpenSSL: it looks for each key share of the
first one in the list of its groups (64 KiB of both took 0.2 s), and decodes the key of each certificate before it looks
whether anybody trusts them (70 KiB took 60 ms). So the records of a handshake, and their bytes, are bounded.

A record with a byte of data costs a microsecond. Two hundred strangers, each with 256 KiB of such, held the loop for a
second in one turn. So a connection reads few at once, and the others in later turns (``encrypted``).

What is not read stays where the event loop puts it. The loop reads the socket while little is there: so it is in the
kernel that a peer's bytes pile up, and its end comes behind them, as it does without TLS. Who cannot go on although
nothing is there leaves a byte (``hold_back``).
"""

from __future__ import annotations

import ssl
from typing import Any, Final

from minikafka.net.turns import Turns

AT_ONCE: Final = 128
READ_AT_ONCE: Final = 2 * AT_ONCE
"""Records that a connection reads before others have their turn: at most 4 MiB, and at least some 6 KiB of them."""
RECORD_COST: Final = 300
"""Of the turn, beside its bytes: a microsecond or two."""
FRUITLESS_COST: Final = 4_000
"""Of a record that brings no bytes: keys are made of it."""
FRUITLESS_MAX: Final = 32
"""Records that bring no bytes: renewed keys, or empty ones."""
FRUITFUL_FOR_ONE_MORE: Final = 1_000
"""Implementations renew their keys after millions."""
SHAKING_HANDS_MAX: Final = 128
"""Records of a handshake. It takes four, and a few more for a long chain of certificates."""
SHAKING_HANDS_BYTES_MAX: Final = 16 * 1024
"""In these. A certificate has one or two thousand; Java takes eight of a client."""
HELLO_BYTES_MAX: Final = 8 * 1024
"""Of what comes before the first answer. Clients send hundreds; with post-quantum keys and a ticket, some thousands."""
_RENEWS: Final = "too many records without data: it renews its keys"
_IN_PIECES: Final = "too many records in a handshake"
_LONG_HELLO: Final = "the first message is too long"
_LONG: Final = f"its certificates have more than {SHAKING_HANDS_BYTES_MAX // 1024} KiB"
_HEADER_BYTES: Final = 5
_KINDS: Final = range(20, 25)
_LARGEST: Final = (1 << 14) + 2048


class FewRecords(ssl.SSLObject):
    """Takes records from where the event loop puts them. SSLError if too many of them bring nothing."""

    _arrived: ssl.MemoryBIO
    _taken: ssl.MemoryBIO
    _answers: ssl.MemoryBIO
    _begun: bytes
    _is_marked: bool
    _handed_over: int
    _fruitful: int
    _left: int
    _turns: Turns | None
    _allowed: int
    _shaking_hands: int
    _shaking_hands_bytes: int
    _is_answered: bool
    _has_ended: bool

    def take_from(self, arrived: ssl.MemoryBIO, taken: ssl.MemoryBIO, answers: ssl.MemoryBIO) -> None:
        """``taken`` is what OpenSSL reads, ``answers`` what it writes."""
        self._arrived, self._taken, self._answers = arrived, taken, answers
        self._begun = b""  # a record that has not arrived completely
        self._is_marked = False  # the first byte of what has arrived is ours
        self._handed_over = self._fruitful = 0  # records of the last time
        self._left = FRUITLESS_MAX * FRUITFUL_FOR_ONE_MORE  # each fruitless record takes FRUITFUL_FOR_ONE_MORE of it
        self._turns: Turns | None = None
        self._allowed = READ_AT_ONCE
        self._shaking_hands = self._shaking_hands_bytes = 0
        self._is_answered = False
        self._has_ended = False

    def allow(self, turns: Turns) -> None:
        """To read READ_AT_ONCE more records, which cost their turn."""
        self._turns, self._allowed = turns, READ_AT_ONCE

    @property
    def holds_back(self) -> bool:
        """There are more than are allowed."""
        return not self._allowed and self._arrived.pending > 0

    @property
    def has_record(self) -> bool:
        """False: no whole one has arrived, nor what is none. Where few bytes are read at once, most have not."""
        if self._is_marked or self._taken.pending:  # one may have
            return True
        size = self._take_header()
        return 0 < size <= len(self._begun) + self._arrived.pending

    def hold_back(self) -> None:
        """Something has arrived, for the event loop: it is not to read the socket before this was read from again."""
        if not self._arrived.pending:
            self._arrived.write(b"\0")
            self._is_marked = True

    def do_handshake(self) -> None:
        """As the base class."""
        while True:
            try:
                return super().do_handshake()
            except ssl.SSLWantReadError:
                self._is_answered = self._is_answered or self._answers.pending > 0
                if not self._hand_over(1):
                    raise
                self._note_of_handshake()

    def read(self, len: int = 1024, buffer: Any = None) -> Any:
        """As the base class, but with a ``buffer`` as many records as are allowed: each call costs more than a record.
        SSLWantReadError also if no more are allowed. Without a ``buffer`` the event loop reads what nobody will see,
        because the connection is being closed: beyond what is allowed that is dropped as it came."""
        read, taken = super().read, self._taken
        view = None if buffer is None else memoryview(buffer)
        if view is not None and not (view and (self._allowed or not self._has_ended)):
            raise ssl.SSLWantReadError  # 0 would be the end
        # The last call had no room for all of a record. OpenSSL reads of one at a time.
        is_rest = super().pending() > 0
        filled = 0
        while filled < len:
            if not (is_rest or taken.pending):
                self._settle()
                if view is None and not self._allowed:
                    self._arrived.read()
                    self._begun, self._is_marked = b"", False
                self._handed_over = self._hand_over(min(AT_ONCE, self._allowed))
                self._allowed -= self._handed_over
                if filled and not self._handed_over:
                    break
            try:
                found: Any = read(len) if view is None else read(len - filled, view[filled:])
            except ssl.SSLWantReadError:
                if not self._handed_over:
                    raise
                continue
            if is_rest:
                is_rest = False
            else:
                self._fruitful += 1
            if view is None:
                return found
            if not found:
                # It is told in a turn of its own: until then the connection can wait, with frames.
                self._has_ended = filled > 0
                self._allowed = 0
                break
            filled += found
        if filled == len or self._has_ended:
            self.hold_back()
        return filled

    def pending(self) -> int:
        """What can be read, beside what arrived and was not looked at."""
        return super().pending() + self._taken.pending

    def unwrap(self) -> None:
        """As the base class."""
        while True:
            try:
                return super().unwrap()
            except ssl.SSLWantReadError:
                self._settle()
                self._handed_over = self._hand_over(AT_ONCE)
                if not self._handed_over:
                    raise

    def _hand_over(self, count: int) -> int:
        """At most so many whole records; returns their number. What is no record is handed over for OpenSSL to see."""
        arrived, number = self._arrived, 0
        while number < count and (size := self._take_header()):
            self._begun += arrived.read(size - len(self._begun))
            if len(self._begun) < size:
                break
            self._taken.write(self._begun)
            self._begun, number = b"", number + 1
        return number

    def _take_header(self) -> int:
        """Bytes of the record that has begun, as far as its header says; of what is no record, as far as it is there.
        0: its header has not arrived."""
        arrived = self._arrived
        if self._is_marked:
            arrived.read(1)
            self._is_marked = False
        if len(self._begun) < _HEADER_BYTES:
            self._begun += arrived.read(_HEADER_BYTES - len(self._begun))
            if len(self._begun) < _HEADER_BYTES:
                return 0
        begun = self._begun
        size = _HEADER_BYTES + (begun[3] << 8 | begun[4])
        if size <= _LARGEST and begun[0] in _KINDS:
            return size
        return min(size, len(begun) + arrived.pending)

    def _note_of_handshake(self) -> None:
        """One more record was handed over."""
        self._shaking_hands += 1
        self._shaking_hands_bytes += self._taken.pending
        if self._shaking_hands > SHAKING_HANDS_MAX:
            raise _refused(_IN_PIECES) from None
        if self._shaking_hands_bytes > HELLO_BYTES_MAX and not self._is_answered:
            raise _refused(_LONG_HELLO) from None
        if self._shaking_hands_bytes > SHAKING_HANDS_BYTES_MAX:
            raise _refused(_LONG) from None

    def _settle(self) -> None:
        """OpenSSL is done with the records of the last time."""
        fruitless = self._handed_over - self._fruitful
        if self._turns is not None:
            self._turns.left -= RECORD_COST * self._handed_over + FRUITLESS_COST * fruitless
        self._left += self._fruitful - FRUITFUL_FOR_ONE_MORE * fruitless
        self._handed_over = self._fruitful = 0
        if self._left < 0 or fruitless == AT_ONCE:  # who waited for its turn would wait for ever
            raise _refused(_RENEWS)


def _refused(why: str) -> ssl.SSLError:
    error = ssl.SSLError(ssl.SSL_ERROR_SSL, why)
    error.reason = why  # OpenSSL's have one
    return error
