"""Follower: fetches from the leader of its epoch, for ever, one request at a time.

A fetch claims that our whole log, up to the named end, is on disk. So no fetch is sent while an append is unflushed.
The leader parks a fetch without news for up to ``fetch_max_wait_ms``: an idle follower sends two a second. A follower
with a slower disk sends a *sign of life* meanwhile: a fetch that claims the flushed part only and asks for no records.
By it the leader keeps its majority, and its answer proves the leader alive: a slow disk is no reason for an election.

The answer is one of three: batches to append; the point of divergence, where our log is cut before the next fetch; the
snapshot to fetch first. Each of them, and each piece of a snapshot, proves the leader alive and restarts the fetch
timeout. At the timeout a voter turns prospective, and an observer looks for the leader again. The same happens earlier
when the leader is certainly gone: its port refuses connections, it answers that it does not lead, or it resigned.

A node with a damaged log is repaired by fetching. It is whole when its log is flushed up to a high watermark that this
leader reached in its own epoch: every committed record is below, also those that this node acknowledged and lost. (A
new leader's high watermark may still be an old one, and proves nothing.)
"""

from __future__ import annotations

from typing import ClassVar

from minikafka.errors import ErrorCode
from minikafka.model import NO_EPOCH, OffsetAndEpoch
from minikafka.raft.core import BatchSpan, Core
from minikafka.raft.download import SnapshotDownload
from minikafka.raft.effects import AppendFetched, InstallSnapshot, TruncateTo
from minikafka.raft.log import CommittedDataLostError
from minikafka.raft.messages import EndQuorumEpochRequest, FetchRequest, FetchResponse, FetchSnapshotResponse, Response
from minikafka.raft.role import UNKNOWN_MS, Role, ToCandidate, ToProspective, ToUnattached, Transition


class Follower(Role):
    """See the module's docstring."""

    NAME: ClassVar[str] = "follower"

    def __init__(self, core: Core, now_ms: int, leader: int) -> None:
        super().__init__(core)
        self.leader = leader
        self._timeout_ms = core.config.fetch_timeout_ms + core.rng.randrange(core.config.election_jitter_ms)
        self._deadline_ms = now_ms + self._timeout_ms  # set anew once epoch and vote are on disk
        self._has_fetched = False  # no protection for a leader without a single answered fetch (KIP-996)
        self._leader_gone = False
        self._leader_high_watermark = 0
        self.known_until_ms = UNKNOWN_MS  # all records committed by then, up to this epoch, are known as committed
        self._request_id: int | None = None
        self._is_sign_of_life = False  # the last request
        self._sign_at_ms = now_ms
        self._sent_at_ms = now_ms
        self._max_wait_ms = 0
        self._retry_at_ms = now_ms
        self._download: SnapshotDownload | None = None

    def enter(self, now_ms: int) -> Transition | None:
        self.core.knows_of_records = True  # each leader has one
        self._maybe_fetch(now_ms)
        return None

    def may_pre_vote(self, now_ms: int) -> bool:
        return self._leader_gone or not self._has_fetched or now_ms >= self._deadline_ms

    def next_deadline_ms(self) -> int | None:
        if not self.core.is_durable:
            return self._deadline_ms if self._leader_gone else None
        if self._can_fetch():
            return min(self._deadline_ms, self._retry_at_ms)
        if self._can_sign():
            return min(self._deadline_ms, max(self._retry_at_ms, self._sign_at_ms))
        return self._deadline_ms

    def tick(self, now_ms: int) -> Transition | None:
        if now_ms >= self._deadline_ms and (self.core.is_durable or self._leader_gone):
            return self._leave_leader()
        self._maybe_fetch(now_ms)
        return None

    def _leave_leader(self) -> Transition:
        return ToProspective(self.leader) if self.core.may_campaign else ToUnattached(self.core.epoch)

    # Asking

    def _can_fetch(self) -> bool:
        """A sign of life under way does not hold a fetch back."""
        return self.core.log.flushed and (self._request_id is None or self._is_sign_of_life)

    def _can_sign(self) -> bool:
        return self._request_id is None and self.core.log.flushed_end.epoch != NO_EPOCH

    def _maybe_fetch(self, now_ms: int) -> None:
        core = self.core
        if now_ms < self._retry_at_ms or not core.is_durable:
            return
        if self._can_fetch():
            request = self._fetch_request() if self._download is None else self._download.request(core)
            self._request_id = core.send(self.leader, request)
            self._is_sign_of_life = False
            self._sent(now_ms)
        elif self._can_sign() and now_ms >= self._sign_at_ms:
            claimed = FetchRequest(
                core.cluster_id, core.node_id, core.epoch, core.log.flushed_end, core.high_watermark, 0, 0
            )
            self._request_id = core.send(self.leader, claimed, at_once=True)
            self._is_sign_of_life = True
            self._sent(now_ms)

    def _sent(self, now_ms: int) -> None:
        self._sent_at_ms = now_ms
        self._sign_at_ms = now_ms + self.core.config.fetch_max_wait_ms

    def _fetch_request(self) -> FetchRequest:
        core, config = self.core, self.core.config
        # In doubt about the leader: ask for an answer at once.
        self._max_wait_ms = 0 if self._leader_gone else config.fetch_max_wait_ms
        return FetchRequest(
            core.cluster_id,
            core.node_id,
            core.epoch,
            core.log.end,
            core.high_watermark,
            self._max_wait_ms,
            config.fetch_max_bytes,
        )

    def on_flushed(self, now_ms: int) -> None:
        self._maybe_complete_repair()
        self._maybe_fetch(now_ms)

    def on_election_durable(self, now_ms: int) -> Transition | None:
        if not self._leader_gone:
            self._deadline_ms = now_ms + self._timeout_ms
        return self.tick(now_ms)

    # Answers

    def on_response(self, peer: int, request_id: int, message: Response, now_ms: int) -> Transition | None:
        if peer != self.leader or request_id != self._request_id:
            return None
        self._request_id = None
        if message.leader_epoch != self.core.epoch:
            self._back_off(now_ms)
        elif message.error_code == ErrorCode.NOT_LEADER_OR_FOLLOWER:
            return self._on_leader_gone(now_ms)
        elif isinstance(message, FetchResponse) and message.error_code == ErrorCode.NONE:
            self._on_fetched(message, now_ms)
        elif isinstance(message, FetchSnapshotResponse):
            self._on_snapshot_fetched(message, now_ms)
        else:
            self._back_off(now_ms)
        self._maybe_fetch(now_ms)
        return None

    def _on_leader_alive(self, now_ms: int) -> None:
        self._deadline_ms = now_ms + self._timeout_ms
        self._sign_at_ms = now_ms + self.core.config.fetch_max_wait_ms
        self._has_fetched = True
        self._leader_gone = False
        self.core.failed_rounds = 0

    def _on_fetched(self, response: FetchResponse, now_ms: int) -> None:
        self._on_leader_alive(now_ms)
        self._retry_at_ms = now_ms
        if self._is_sign_of_life:
            return
        if response.diverging is not None:
            self._truncate(response.diverging, now_ms)
        elif response.snapshot_id is not None:
            self._begin_download(response.snapshot_id, now_ms)
        else:
            self._append(response, now_ms)

    def _append(self, response: FetchResponse, now_ms: int) -> None:
        core = self.core
        try:
            self._append_records(response.records)
        except ValueError:
            # Damaged on its way, or on the leader's disk: ask again, and append nothing meanwhile.
            self._back_off(now_ms)
            return
        self._leader_high_watermark = response.high_watermark
        if self._is_of_this_epoch(response.high_watermark):
            self.known_until_ms = self._sent_at_ms
        risen = core.advance_high_watermark(min(core.log.log_end_offset, response.high_watermark))
        self._maybe_complete_repair()
        if not (response.records or risen) and now_ms - self._sent_at_ms < self._max_wait_ms // 2:
            self._back_off(now_ms)  # nothing new, and the leader does not hold fetches: do not spin (semantics R8)
        else:
            core.failed_fetches = 0

    def _append_records(self, records: bytes) -> None:
        if not records:
            return
        log = self.core.log
        base_offset = log.log_end_offset
        spans = self._checked(records)
        for span in spans:
            log.append(span.last_offset + 1, span.leader_epoch)
        self.core.emit(AppendFetched(base_offset, records, log.end))

    def _checked(self, records: bytes) -> list[BatchSpan]:
        """The places of the batches, which must continue our log; ValueError otherwise."""
        spans = list(self.core.batch_spans(records))
        offset, epoch = self.core.log.end
        for span in spans:
            if span.base_offset != offset or span.last_offset < offset:
                raise ValueError(f"expected a batch at offset {offset}, got {span}")
            if not epoch <= span.leader_epoch <= self.core.epoch:
                raise ValueError(f"expected a batch of an epoch from {epoch} to {self.core.epoch}, got {span}")
            offset, epoch = span.last_offset + 1, span.leader_epoch
        if not spans:
            raise ValueError("the records hold no whole batch")
        return spans

    def _truncate(self, diverging: OffsetAndEpoch, now_ms: int) -> None:
        core = self.core
        offset = core.log.truncation_point(diverging)
        if offset < core.high_watermark:
            raise CommittedDataLostError(
                f"leader {self.leader} of epoch {core.epoch} diverges at {offset}, below our high watermark "
                f"{core.high_watermark}: committed metadata is missing on the majority that elected it"
            )
        if offset >= core.log.log_end_offset:
            self._back_off(now_ms)  # inconsistent answer; back off
            return
        core.log.truncate_to(offset)
        core.emit(TruncateTo(offset))

    def _maybe_complete_repair(self) -> None:
        core = self.core
        reached = self._leader_high_watermark
        whole = reached <= core.log.flushed_offset and self._is_of_this_epoch(reached)
        if (core.vote_disabled or core.is_new) and whole:
            core.complete_repair(self.leader)

    def _is_of_this_epoch(self, high_watermark: int) -> bool:
        """We have all records below it, and the leader reached it in its own epoch: every commit is covered."""
        log = self.core.log
        return 0 < high_watermark <= log.log_end_offset and log.epoch_before(high_watermark) == self.core.epoch

    # Snapshots

    def _begin_download(self, snapshot_id: OffsetAndEpoch, now_ms: int) -> None:
        if snapshot_id.offset < self.core.high_watermark:
            self._back_off(now_ms)  # older than our applied state
            return
        self._download = SnapshotDownload(snapshot_id)

    def _on_snapshot_fetched(self, response: FetchSnapshotResponse, now_ms: int) -> None:
        download = self._download
        if download is None or response.error_code != ErrorCode.NONE or not download.accepts(response):
            self._download = None  # the leader has a newer one by now: a fetch will tell
            self._back_off(now_ms)
            return
        self._on_leader_alive(now_ms)
        self.core.failed_fetches = 0
        self.core.emit(download.write(response))
        if download.complete:
            self._install(download)

    def _install(self, download: SnapshotDownload) -> None:
        self._download = None
        self.core.log.reset_to(download.snapshot)
        self.core.emit(InstallSnapshot(download.snapshot_id))
        self.core.advance_high_watermark(download.snapshot_id.offset)

    # Trouble

    def _back_off(self, now_ms: int) -> None:
        self._retry_at_ms = now_ms + self.core.retry_backoff_ms()

    def on_connection_lost(self, peer: int, refused: bool, now_ms: int) -> Transition | None:
        if peer != self.leader:
            return None
        self._request_id = None
        if refused:
            return self._on_leader_gone(now_ms)
        self._back_off(now_ms)
        return None

    def on_begin_quorum_epoch(self, leader: int, now_ms: int) -> None:
        overdue = now_ms - self._sent_at_ms >= self.core.config.begin_quorum_interval_ms
        if leader == self.leader and overdue:
            self._request_id = None  # our request was lost
            self._maybe_fetch(now_ms)

    def _on_leader_gone(self, now_ms: int) -> Transition | None:
        """The leader is certainly gone. If we are wrong, the others refuse their pre-votes."""
        self._back_off(now_ms)
        return self._hasten(now_ms, self.core.jitter_ms())

    def _hasten(self, now_ms: int, wait_ms: int) -> Transition | None:
        self._leader_gone = True
        self._deadline_ms = min(self._deadline_ms, now_ms + wait_ms)
        return self.tick(now_ms)

    def on_end_quorum_epoch(self, request: EndQuorumEpochRequest, now_ms: int) -> Transition | None:
        core, successors = self.core, request.preferred_successors
        if request.leader_id != self.leader:
            return None
        if successors[:1] == (core.node_id,) and core.may_campaign:
            return ToCandidate()  # the leader itself consents, so a pre-vote has nothing to protect
        position = successors.index(core.node_id) if core.node_id in successors else len(successors)
        return self._hasten(now_ms, position * core.config.election_jitter_ms + core.jitter_ms())
