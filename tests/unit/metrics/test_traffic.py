from __future__ import annotations

from minikafka.metrics.traffic import Traffic


def test_partitions_of_a_topic_count_together() -> None:
    traffic = Traffic()
    one, two, other = traffic.enter("a"), traffic.enter("a"), traffic.enter("b")
    one.bytes_in += 5
    two.bytes_in += 7
    other.bytes_out += 1
    assert traffic.topics["a"].bytes_in == 12
    assert (traffic.total().bytes_in, traffic.total().bytes_out) == (12, 1)


def test_no_counter_falls_while_a_topic_has_a_partition_here_nor_the_total_ever() -> None:
    traffic = Traffic()
    for _ in range(2):
        traffic.enter("a").messages_in += 10
    traffic.leave("a")
    assert traffic.topics["a"].messages_in == 20
    traffic.leave("a")
    assert "a" not in traffic.topics
    traffic.enter("a").messages_in += 1
    assert traffic.topics["a"].messages_in == 1
    assert traffic.total().messages_in == 21
