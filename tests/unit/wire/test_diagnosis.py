from __future__ import annotations

from typing import Any

import pytest

from minikafka.wire.diagnosis import explain
from minikafka.wire.messages.describe_topic_partitions import DescribeTopicPartitionsRequest
from minikafka.wire.messages.fetch import FetchableTopicResponse, FetchResponse, PartitionData


def response(**partition: Any) -> FetchResponse:
    return FetchResponse(responses=[FetchableTopicResponse(topic="t", partitions=[PartitionData(**partition)])])


@pytest.mark.parametrize(
    ("partition", "complaint"),
    [
        ({"partition_index": None}, "partition_index must not be null"),
        ({"error_code": 40_000}, "error_code is 40000"),
        ({"records": "text"}, "records is 'text'"),
        ({"current_leader": 5}, "current_leader is not a LeaderIdAndEpoch but 5"),
        ({"aborted_transactions": [None]}, "aborted_transactions[0] must not be null"),
    ],
)
def test_the_field_is_named_with_its_path(partition: dict[str, Any], complaint: str) -> None:
    found = explain(response(**partition), 12)
    assert found.startswith(f"FetchResponse v12 cannot be encoded: responses[0].partitions[0].{complaint}")


@pytest.mark.parametrize(
    ("topic", "complaint"), [("\ud800", "surrogates"), (5, "is 5"), ("x" * 32768, "is longer than")]
)
def test_a_string_that_cannot_be_written_is_named_with_its_path(topic: Any, complaint: str) -> None:
    found = explain(FetchResponse(responses=[FetchableTopicResponse(topic=topic)]), 12)
    assert "responses[0].topic" in found
    assert complaint in found


def test_a_value_that_is_no_uuid_is_named_with_its_path() -> None:
    topic: Any = FetchableTopicResponse(topic_id="t")  # type: ignore[arg-type]
    assert "responses[0].topic_id is not a UUID but 't'" in explain(FetchResponse(responses=[topic]), 13)


def test_nothing_to_complain_about() -> None:
    assert explain(response(), 12) == ""
    assert explain(DescribeTopicPartitionsRequest(cursor=None), 0) == ""
