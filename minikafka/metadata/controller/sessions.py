"""The active controller's sessions of brokers. Volatile: a new controller begins with fresh sessions.

A broker that is live in the image at activation has a *presumed* session until its first heartbeat. Presumed brokers
are not fenced before a whole timeout has passed, but get no leaderships, and do not keep their next incarnation from
registering. So after a crash of all nodes, returning brokers are heard at once, and dead ones lead no partition.

Only time in which this controller itself ran counts. After a pause (a stopped process, an overloaded machine) the
brokers' heartbeats are queued behind the tick that would fence them all. So :meth:`Sessions.advance` adds a gap without
calls to all sessions.
"""

from __future__ import annotations

from dataclasses import dataclass

from minikafka.model import NO_OFFSET


@dataclass(slots=True)
class Session:
    """State from a broker's heartbeats."""

    last_contact_ms: int
    heard: bool
    metadata_offset: int = NO_OFFSET
    shutdown_offset: int | None = None
    """Others must have replayed metadata up to here before the broker may stop; None: it does not want to."""


class Sessions:
    """The sessions of registered brokers. All times are monotonic milliseconds."""

    def __init__(self, timeout_ms: int, now_ms: int) -> None:
        self._timeout_ms = timeout_ms
        self._last_advance_ms = now_ms
        self._sessions: dict[int, Session] = {}

    @property
    def tick_interval_ms(self) -> int:
        """Longest interval of :meth:`advance` calls: a longer gap counts as a pause of this process."""
        return max(1, self._timeout_ms // 4)

    def advance(self, now_ms: int) -> None:
        """Time passed. After more than two missed ticks this process itself stood still."""
        gap_ms = now_ms - self._last_advance_ms
        self._last_advance_ms = now_ms
        if gap_ms > 2 * self.tick_interval_ms:
            for session in self._sessions.values():
                session.last_contact_ms = min(session.last_contact_ms + gap_ms, now_ms)

    def presume(self, broker_id: int, now_ms: int) -> None:
        """The broker is live in the image."""
        self._sessions[broker_id] = Session(now_ms, heard=False)

    def start(self, broker_id: int, now_ms: int) -> None:
        """An incarnation registered."""
        self._sessions[broker_id] = Session(now_ms, heard=True)

    def hear(self, broker_id: int, now_ms: int, metadata_offset: int) -> tuple[Session, bool]:
        """A heartbeat came. Returns the session, and True for the first heartbeat of a presumed or ended one."""
        session = self._sessions.get(broker_id)
        is_first = session is None or not session.heard
        if session is None:
            session = self._sessions[broker_id] = Session(now_ms, heard=True)
        session.heard = True
        session.last_contact_ms = now_ms
        session.metadata_offset = metadata_offset
        return session, is_first

    def touch(self, broker_id: int, now_ms: int) -> None:
        """A heartbeat came; :meth:`hear` follows."""
        session = self._sessions.get(broker_id)
        if session is not None:
            session.last_contact_ms = now_ms

    def end(self, broker_id: int) -> None:
        """The broker is gone."""
        self._sessions.pop(broker_id, None)

    def is_heard(self, broker_id: int) -> bool:
        """True when the broker was in contact with this controller and its session has not ended."""
        session = self._sessions.get(broker_id)
        return session is not None and session.heard

    def metadata_offset(self, broker_id: int) -> int:
        """The broker's metadata offset at its last heartbeat."""
        session = self._sessions.get(broker_id)
        return NO_OFFSET if session is None else session.metadata_offset

    def expired(self, now_ms: int) -> list[int]:
        """Brokers without a heartbeat for the session timeout."""
        return sorted(i for i, session in self._sessions.items() if self._deadline_ms(session) <= now_ms)

    def next_deadline_ms(self) -> int:
        """The next time at which :meth:`expired` may have a broker, or the next tick if that is earlier."""
        deadlines = [self._deadline_ms(session) for session in self._sessions.values()]
        return min([self._last_advance_ms + self.tick_interval_ms, *deadlines])

    def _deadline_ms(self, session: Session) -> int:
        return session.last_contact_ms + self._timeout_ms
