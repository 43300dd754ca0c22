"""SASL: how a client proves who it is. Pure machines of both sides; secrets, nonces and the time are handed in.

Map:

* ``exchange``     what the machines of all mechanisms have in common
* ``plain``        PLAIN (RFC 4616): user and password as they are
* ``scram``        SCRAM-SHA-256 and -512 (RFC 5802, RFC 7677): credentials, messages, keys
* ``scram_server``, ``scram_client``  both sides of a SCRAM exchange
* ``oauthbearer``  OAUTHBEARER (RFC 7628): a token instead of a password
* ``jwt``          claims of a token, and what they must say
* ``login``        one connection at the server: handshake, exchange, re-authentication, end of the session (KIP-368)

Whoever is refused learns nothing about users: an unknown one gets the answers of a known one with a wrong password, for
the same work.
"""
