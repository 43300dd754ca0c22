"""A small asyncio Kafka client: :class:`Producer`, :class:`Consumer` and :class:`Admin`.

=========================  ========================================================================================
``producer``               records in, their fate out; made of the parts in ``producing/``
``consumer``               records out; made of the parts in ``consuming/``
``admin``                  topics, settings, groups, replicas, the cluster
``reassigning``            plans that move partitions, with Kafka's JSON files, carried out by ``admin``
``cluster``                what the last Metadata responses said (pure)
``metadata``               keeps that current: at once when it proved wrong, else now and then
``connections``            one per broker and purpose, opened on demand; which broker is asked when any will do
``broker_connection``      one connection: versions, requests with their answers, late answers
``backoff``                waits between attempts
``checks``                 of what users give, at the call (pure)
``records``, ``errors``    what is handed out and what is raised
=========================  ========================================================================================

Decisions are made in pure parts that are told the time (accumulator, sequences, positions, buffer); what surrounds
them sends requests and tells them the answers. Every failure that users see is a
:class:`~minikafka.errors.KafkaError`; one that may pass is tried again within the time-outs that the constructors name.
"""

from minikafka.client.admin import Admin
from minikafka.client.consumer import Consumer
from minikafka.client.errors import CommitFailedError, LogTruncatedError, NoOffsetError
from minikafka.client.producer import Producer
from minikafka.client.records import ConsumerRecord, FetchedBatches, RecordMetadata

__all__ = [
    "Admin",
    "CommitFailedError",
    "Consumer",
    "ConsumerRecord",
    "FetchedBatches",
    "LogTruncatedError",
    "NoOffsetError",
    "Producer",
    "RecordMetadata",
]
