"""Random schedules of idempotent producers that write to a replicated partition: promise P3.

The schedules of replication_model.py, with real :class:`ProducerState` beside each log: the leader checks batches with
it, followers and restarts replay them into it, a truncation takes from it what it takes from the log. Producers keep up
to five batches in flight, and send each as often as they like, to whoever believes to lead; requests linger, arrive in
any order, or never.

* What is committed has the sequences of a producer in order, none of them twice.
* What is acknowledged is committed, for a duplicate as well.
"""

from __future__ import annotations

from replication_log import MemoryLog
from replication_model import WHERE, Cluster, ViolationError

from minikafka.errors import KafkaError
from minikafka.records.batch import BatchHeader
from minikafka.storage.producer_state import BATCHES_KEPT, ProducerState

PRODUCERS = 2
HEADER = BatchHeader(0, 60, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 1)


def header_of(value):
    producer, sequence = value
    return HEADER._replace(producer_id=producer, base_sequence=sequence)


class SequencedLog(MemoryLog):
    """A log whose values are (producer, sequence), every record a batch of its own."""

    def __init__(self, **how):
        self.producers = ProducerState()
        super().__init__(**how)

    def extend(self, records):
        for record in records:
            super().extend((record,))
            self.producers.append(header_of(record[1]), self.log_end_offset - 1)

    def truncate_to(self, offset):
        super().truncate_to(offset)
        self.rewind()

    def rewind(self):
        """Take from the state what the cut took from the log; what is known of the batches before it may do."""
        end_offset = self.log_end_offset
        known = {entry.producer_id: entry.before(end_offset) for entry in self.producers.since(end_offset)}
        if None in known.values():
            self.reload()
        else:
            self.producers.rewind(known)

    def reload(self):
        self.producers.clear()
        for offset, (_, value) in enumerate(self.records, self.log_start_offset):
            self.producers.append(header_of(value), offset)


class Producer:
    """Sequences that were sent, and which of them were acknowledged."""

    def __init__(self, producer_id):
        self.id = producer_id
        self.next = 0
        self.unacknowledged = []


class SequencesCluster(Cluster):
    """One schedule."""

    def __init__(self, seed):
        self.producers = [Producer(producer_id) for producer_id in range(PRODUCERS)]
        self.waiting = []  # (node, its leader epoch, required offset, producer, sequence)
        self.seen = 0  # of what is committed, checked
        self.last = [-1] * PRODUCERS  # sequence committed last
        super().__init__(seed)

    def new_log(self):
        return SequencedLog()

    def start(self, node):
        node.log.reload()
        super().start(node)

    # -- actions ----------------------------------------------------------------------------------------------------

    def produce(self):
        """Somebody sends the next batch, or one again."""
        producer = self.pick(self.producers)
        node = self.pick([node for node in self.nodes if node.leader is not None])
        if node is None:
            return
        oldest = min(producer.unacknowledged, default=producer.next)
        if producer.next - oldest < BATCHES_KEPT and self.random() < 0.5:
            sequence = producer.next
            producer.next += 1
            producer.unacknowledged.append(sequence)
        elif producer.unacknowledged:
            sequence = self.pick(producer.unacknowledged)
        else:
            return
        message = (self.serve_produce, node, producer, sequence)
        if self.random() < 0.7:  # and sometimes it is on its way for long
            self.serve_produce(node, producer, sequence)
        else:
            self.network.append(message)

    def serve_produce(self, node, producer, sequence):
        state, log = node.leader, node.log
        if state is None:
            return
        value = producer.id, sequence
        try:
            duplicate = log.producers.check(header_of(value))
        except KafkaError as error:
            self.say("n{} refuses {}: {}", node.id, value, error.code.name)
            return
        if duplicate is None:
            log.append(state.leader_epoch, value)
            self.say("n{} appends {} in epoch {}, ends at {}", node.id, value, state.leader_epoch, log.log_end_offset)
            required = log.log_end_offset
            node.followers.note(WHERE)
        else:
            self.say("n{} has {} at {}", node.id, value, duplicate.last_offset)
            required = duplicate.last_offset + 1
        self.waiting.append((node, state.leader_epoch, required, producer, sequence))
        if state.on_append(log.log_end_offset, self.now_ms) or state.high_watermark >= required:
            self.on_high_watermark(node)

    def on_high_watermark(self, node):
        super().on_high_watermark(node)
        self.check_sequences()
        state, still = node.leader, []
        for each in self.waiting:
            leader, epoch, required, producer, sequence = each
            if leader is not node:
                still.append(each)
            elif epoch == state.leader_epoch:
                if state.high_watermark >= required:
                    self.acknowledge(node, producer, sequence)
                else:
                    still.append(each)
        self.waiting = still

    def acknowledge(self, node, producer, sequence):
        self.say("n{} acknowledges {}", node.id, (producer.id, sequence))
        if sequence > self.last[producer.id] or sequence not in self.sequences(producer.id):
            raise ViolationError(f"sequence {sequence} of producer {producer.id} is acknowledged and not committed")
        if sequence in producer.unacknowledged:
            producer.unacknowledged.remove(sequence)

    def sequences(self, producer_id):
        return {value[1] for _, value in self.committed if value[0] == producer_id}

    def check_sequences(self):
        for _, (producer_id, sequence) in self.committed[self.seen :]:
            last = self.last[producer_id]
            if sequence <= last:
                raise ViolationError(f"sequence {sequence} of producer {producer_id} is committed after {last}")
            self.last[producer_id] = sequence
        self.seen = len(self.committed)


def run(seed):
    """Run one schedule; raises what it violated."""
    SequencesCluster(seed).run()


def trace_of(seed):
    """Every step of a schedule, with what it violated at its end."""
    cluster = SequencesCluster(seed)
    cluster.trace = []
    try:
        cluster.run()
    except AssertionError as violation:
        cluster.say("VIOLATION: {}", violation)
    return "\n".join(cluster.trace)
