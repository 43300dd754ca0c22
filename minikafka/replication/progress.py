"""Progress of one follower, as the leader knows it: log end, log start, last caught-up time (row R17)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from minikafka.model import NO_OFFSET

NEVER_MS: Final = -(1 << 62)  # before any clock reading, so that "now - never" exceeds every lag
UNKNOWN_BROKER_EPOCH: Final = -1
REPEATS_MAX: Final = 64
"""With a follower's longest back-off (``replica.fetch.backoff.ms``, a second by default), about once a minute."""


class Repetition(Protocol):
    """A session whose fetches repeat the last one."""

    last_used_ms: int
    """When the last of them came."""


@dataclass(slots=True, eq=False)
class ReplicaProgress:
    """One remote replica, as the leader knows it in one leader epoch.

    Offsets are -1 until the follower's first fetch in this epoch. Members of the ISR count as caught up at the moment
    of election; other replicas do not.

    A follower at the log end fetches again and again. Its leader looks at the first of these fetches, and reads the
    time of the others from their session, until the log end moves (:meth:`begin_repeating`).

    The leader keeps ``is_in_maximal_isr`` here, so that the high watermark loop touches one object per replica.
    """

    replica_id: int
    broker_epoch: int = UNKNOWN_BROKER_EPOCH
    is_in_maximal_isr: bool = False
    last_caught_up_time_ms: int = NEVER_MS
    log_end_offset: int = NO_OFFSET
    log_start_offset: int = NO_OFFSET
    _last_fetch_leader_log_end_offset: int = NO_OFFSET
    _last_fetch_time_ms: int = NEVER_MS
    _repeated_by: Repetition | None = None
    _sent_from: int = NO_OFFSET
    _repeats: int = 0

    def on_fetch(
        self, broker_epoch: int, fetch_offset: int, log_start_offset: int, leader_log_end_offset: int, now_ms: int
    ) -> None:
        """Record a fetch. At the leader's log end of the previous fetch: it was caught up at the time of that one."""
        self._repeated_by = None
        if fetch_offset >= leader_log_end_offset:
            self.last_caught_up_time_ms = now_ms
        elif fetch_offset >= self._last_fetch_leader_log_end_offset:
            self.last_caught_up_time_ms = max(self.last_caught_up_time_ms, self._last_fetch_time_ms)
        self.broker_epoch = broker_epoch
        self.log_end_offset = fetch_offset
        self.log_start_offset = log_start_offset
        self._last_fetch_leader_log_end_offset = leader_log_end_offset
        self._last_fetch_time_ms = now_ms

    def begin_repeating(self, session: Repetition) -> None:
        """From now on each fetch of the session is one like the last, from the leader's log end."""
        self._repeated_by = session

    def end_repeating(self, session: Repetition) -> None:
        """No longer: the last of them counts. Nothing when another session's fetches came since."""
        if self._repeated_by is session:
            self.last_caught_up_time_ms = self._caught_up_ms()
            self._last_fetch_time_ms = max(self._last_fetch_time_ms, session.last_used_ms)
            self._repeated_by = None

    def on_records_sent(self, fetch_offset: int) -> bool:
        """It is sent records from ``fetch_offset`` on. True when it is time to verify them.

        A follower that asks for the same records again and again could not append them. One repetition may be a lost
        connection. After that, verify at each doubling of the repetitions and at every :data:`REPEATS_MAX`: the fault
        may be the follower's own, and the records here good.
        """
        if fetch_offset != self._sent_from:
            self._sent_from, self._repeats = fetch_offset, 0
            return False
        self._repeats += 1
        is_power_of_two = self._repeats & (self._repeats - 1) == 0
        return self._repeats > 1 and (is_power_of_two or self._repeats % REPEATS_MAX == 0)

    def is_caught_up(self, leader_log_end_offset: int, now_ms: int, lag_time_max_ms: int) -> bool:
        """At the leader's log end now, or at most ``lag_time_max_ms`` ago (row R19)."""
        if self.log_end_offset == leader_log_end_offset:
            return True
        return now_ms - self._caught_up_ms() <= lag_time_max_ms

    def _caught_up_ms(self) -> int:
        repeated_by = self._repeated_by
        if repeated_by is None:
            return self.last_caught_up_time_ms
        return max(self.last_caught_up_time_ms, repeated_by.last_used_ms)
