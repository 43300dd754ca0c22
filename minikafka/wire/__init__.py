"""Bytes <-> messages: everything minikafka says on a socket, as pure functions.

==========================  ==============================================================================
``messages/``               generated: one class per message, covering all its versions
``schema.py``               how a message class declares its fields
``codec.py``                ``decode(cls, version, buf)`` and ``encode(message, version)``
``layout.py``               what a class looks like in one version
``decoder.py encoder.py``   the compilers behind the codec
``primitives.py``           varints, UUIDs, arrays of integers
``api.py``                  API keys, supported versions, which class belongs to which key
``headers.py``              request and response headers
``errors.py``               ``WireError``
==========================  ==============================================================================

Nothing here knows what a message means. Bad input raises :class:`~minikafka.wire.errors.WireError` only.
"""
