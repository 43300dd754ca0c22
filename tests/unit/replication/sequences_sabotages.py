"""Planted bugs: each lets the state of idempotent producers and the log come apart."""

from __future__ import annotations

from planted.registry import Suite
from replication_model import Cluster
from sequences_model import SequencedLog, SequencesCluster, run, trace_of

from minikafka.storage.producer_state import ProducerEntry, ProducerState

SUITE = Suite("sequences", "idempotent producers over failovers", run, 20_000, trace=trace_of)


@SUITE.plants(listed="sequence state lost on failover")
def followers_do_not_note_sequences(monkeypatch):
    """A follower that becomes leader knows no producer, and takes a batch that it has for a new one."""

    def do_fetch(self, node, effects):
        kept, node.log.producers = node.log.producers, ProducerState()
        sound(self, node, effects)
        node.log.producers = kept

    sound = SequencesCluster.do_fetch
    monkeypatch.setattr(SequencesCluster, "do_fetch", do_fetch)
    monkeypatch.setattr(SequencedLog, "reload", lambda self: None)


@SUITE.plants()
def sequences_are_lost_on_restart(monkeypatch):
    """A restarted replica knows no producer."""
    monkeypatch.setattr(
        SequencesCluster, "start", lambda self, node: (node.log.producers.clear(), Cluster.start(self, node))
    )


@SUITE.plants()
def a_truncation_leaves_the_sequences(monkeypatch):
    """A batch that was cut off is still taken for a duplicate, and acknowledged."""
    monkeypatch.setattr(SequencedLog, "rewind", lambda *_: None)


@SUITE.plants()
def any_older_sequence_is_a_duplicate(monkeypatch):
    """What is older than the last batch is acknowledged as that, though it may never have been appended."""

    def any_older(self, header):
        return self.batches[-1] if header.base_sequence <= self.last_sequence else None

    monkeypatch.setattr(ProducerEntry, "find_duplicate", any_older)


@SUITE.plants()
def gaps_are_accepted(monkeypatch):
    """A sequence that does not follow the last one is appended."""
    monkeypatch.setattr(ProducerState, "_check_sequence", lambda *_: None)


@SUITE.plants()
def duplicates_are_acknowledged_at_once(monkeypatch):
    """A duplicate of a batch that is not committed yet is acknowledged."""

    def serve(self, node, producer, sequence):
        if node.leader is not None:
            duplicate = node.log.producers.get(producer.id)
            if duplicate is not None and any(batch.first_sequence == sequence for batch in duplicate.batches):
                self.acknowledge(node, producer, sequence)
                return
        sound(self, node, producer, sequence)

    sound = SequencesCluster.serve_produce
    monkeypatch.setattr(SequencesCluster, "serve_produce", serve)
