"""Bytes <-> messages: everything minikafka says on a socket, as pure functions.

==========================  ==============================================================================
``messages/``               one class per message, covering all its versions
``schema.py``               how a message class declares its fields
``codec.py``                ``decode(cls, version, buf)`` and ``encode(message, version)``
``layout.py``               what a class looks like in one version
``decoder.py encoder.py``   the compilers behind the codec
``error_codes.py``          the errors in an answer
``refusals.py``             answers that refuse a request with one error, for any API
``diagnosis.py``            which field keeps a message from being encoded
``primitives.py``           varints, UUIDs, arrays of integers
``api.py``                  API keys, supported versions, which class belongs to which key
``headers.py``              request and response headers
``framing.py``              size prefixes and the receive buffer
``hot.py``                  Fetch responses as segments, responses put together from encoded parts
``offset_questions.py``     what followers and clients ask a leader about its log
``versioned.py``            keys and values of records in Kafka's internal topics
``consumer_protocol.py``    what members of a consumer group tell each other
``control.py``              frames of the control plane (msgpack)
``forwarded.py``            Kafka requests in such frames: what is asked of the active controller
``auth.py``                 how two nodes prove the cluster secret to each other
``errors.py``               ``WireError``
==========================  ==============================================================================

A request's way: :class:`~minikafka.wire.framing.ReceiveBuffer` -> frame -> ``decode_request_header`` -> ``decode`` of
``key.request_class``; back: ``encode`` -> ``encode_response``, or ``hot.encode_fetch_response``.

Nothing here knows what a message means. Bad input raises :class:`~minikafka.wire.errors.WireError` only
(in :mod:`~minikafka.wire.auth` a ``KafkaError``). To add an API: its messages, its key and versions in
``api.py``.
"""
