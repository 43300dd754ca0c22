"""A checkpoint of all logs, as a node writes it every few seconds."""

from __future__ import annotations

from collections.abc import Mapping

from minikafka.model import TopicPartition
from minikafka.storage.log_store import LogStore


def write_checkpoints(store: LogStore, high_watermarks: Mapping[TopicPartition, int]) -> None:
    """Recovery points, log starts and the given high watermarks (row R22). A log without one keeps its last value."""
    for log in store:
        store.note_rows(log, high_watermarks.get(log.topic_partition))
    job = store.prepare_checkpoints()
    job.run()
    store.complete_checkpoints(job)
