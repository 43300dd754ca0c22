"""A small asyncio Kafka client: :class:`Producer`, :class:`Consumer` and :class:`Admin`.

=========================  ========================================================================================
``producer``               the producer, made of the parts in ``producing/``
``consumer``               the consumer, made of the parts in ``consuming/``
``admin``                  topics, settings, groups, replicas, the cluster
``reassigning``            plans that move partitions, with Kafka's JSON files, carried out by ``admin``
``cluster``                brokers, topics and leaders, from the last Metadata responses (pure)
``metadata``               refreshes them: at once when they proved wrong, otherwise every few minutes
``connections``            one per broker and purpose, opened on demand; choice of a broker for any request
``broker_connection``      one connection: versions, requests with their answers, late answers
``key_coordinator``        the coordinator of a group or a transactional id
``backoff``                waits between attempts
``security``, ``sasl``       how to connect: TLS, and who the client is
``tokens``                 of OAUTHBEARER: issued by an endpoint, read from a file, or made for tests
``properties``             the same of a ``client.properties`` file (KIP-651)
``other_clients``          the same by the names of other clients
``checks``                 checks of arguments, at the call (pure)
``records``, ``errors``    returned records and raised errors
=========================  ========================================================================================

Pure parts decide (accumulator, sequences, positions, buffer); the time is an argument. The parts around them send
requests and pass in the answers. Every failure is a :class:`~minikafka.errors.KafkaError`. Transient ones are retried
within the time-outs of the constructors.
"""

from minikafka.client.admin import Admin
from minikafka.client.consumer import Consumer
from minikafka.client.errors import (
    CommitFailedError,
    FencedError,
    LogTruncatedError,
    NoOffsetError,
    TransactionAbortedError,
)
from minikafka.client.producer import Producer
from minikafka.client.records import ConsumerRecord, FetchedBatches, GroupMetadata, RecordMetadata
from minikafka.client.security import Security

__all__ = [
    "Admin",
    "CommitFailedError",
    "Consumer",
    "ConsumerRecord",
    "FencedError",
    "FetchedBatches",
    "GroupMetadata",
    "LogTruncatedError",
    "NoOffsetError",
    "Producer",
    "RecordMetadata",
    "Security",
    "TransactionAbortedError",
]
