"""Offsets of a time, asked for again and again in a log of many segments."""

from __future__ import annotations

from typing import Final

import pytest
from live_attack import Target
from live_wire import api_key, batch, produce_request

from minikafka.errors import ErrorCode
from minikafka.wire.codec import encode
from minikafka.wire.messages.list_offsets import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

pytestmark = pytest.mark.spec("P6")

SEGMENTS: Final = 600
LOOK_UPS: Final = 500


def test_look_ups_that_wait_cost_nothing(target: Target) -> None:
    """Each copied all segments before its turn: one connection held the loop for eight seconds."""
    target.create_topic("segments", segment_bytes="2000")
    full = produce_request("segments", batch(b"x" * 1900))
    asked = ListOffsetsPartition(partition_index=0, timestamp=0, current_leader_epoch=-1)
    request = ListOffsetsRequest(replica_id=-1, topics=[ListOffsetsTopic(name="segments", partitions=[asked])])
    with target.wire() as wire:
        for _ in range(SEGMENTS):
            wire.ask(full, 9)
        body = encode(request, 7)
        for _ in range(LOOK_UPS):
            wire.send_body(api_key(request), 7, body)
        for _ in range(LOOK_UPS):
            assert wire.receive(request, 7).topics[0].partitions[0].error_code == ErrorCode.NONE
