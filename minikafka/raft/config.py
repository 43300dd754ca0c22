"""The timings and bounds of the quorum; names follow Kafka's ``controller.quorum.*`` settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RaftConfig:
    """All times in milliseconds.

    The defaults suit nodes on one network. A leader whose process dies is replaced in some tens of milliseconds (its
    port refuses connections), a silent one after ``fetch_timeout_ms``.
    """

    election_timeout_ms: int = 150
    """``controller.quorum.election.timeout.ms``: a round of voting lasts between this and twice this, at random."""
    fetch_timeout_ms: int = 1000
    """``controller.quorum.fetch.timeout.ms``: without a successful fetch for so long, a follower stands."""
    election_backoff_max_ms: int = 500
    """``controller.quorum.election.backoff.max.ms``: upper bound of the random wait after a lost round."""
    retry_backoff_ms: int = 20
    """``controller.quorum.retry.backoff.ms``: pause before a failed fetch is repeated."""
    request_timeout_ms: int = 500
    """``controller.quorum.request.timeout.ms``: how long a search for the leader waits for one voter's answer."""
    election_jitter_ms: int = 60
    """Spread of the start of elections that all voters have reason to start in the same moment."""
    first_election_wait_ms: int = 10_000
    """How long voters without a record, if they are a majority, ask the others before the first election of a cluster.

    One that has all records may be among the others. It opens its port when its logs are recovered."""
    fetch_max_wait_ms: int = 500
    """How long the leader parks a fetch that finds nothing new."""
    fetch_max_bytes: int = 1 << 20
    """Most bytes of log in one answer (at least one batch comes, whatever its size)."""
    snapshot_chunk_bytes: int = 1 << 20
    """Most bytes of a snapshot in one answer."""
    max_uncommitted_records: int = 100_000
    """The leader refuses proposals beyond this many records above the high watermark."""
    max_observers: int = 1_000
    """Observers whose progress the leader remembers and whose fetches it parks."""

    def __post_init__(self) -> None:
        for name in self.__slots__:
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if self.fetch_max_wait_ms >= self.fetch_timeout_ms:
            raise ValueError(
                f"fetch_max_wait_ms ({self.fetch_max_wait_ms}) must be below fetch_timeout_ms "
                f"({self.fetch_timeout_ms}), or an idle follower would take its leader for dead"
            )

    @property
    def check_quorum_timeout_ms(self) -> int:
        """A leader resigns after so long without fetches of a majority (KAFKA-15489: 1.5 fetch timeouts)."""
        return self.fetch_timeout_ms * 3 // 2

    @property
    def begin_quorum_interval_ms(self) -> int:
        """A voter that has not fetched for so long gets another BeginQuorumEpoch."""
        return self.fetch_timeout_ms // 2
