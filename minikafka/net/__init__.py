"""asyncio sockets and nothing else: bytes in, frames up; replies down, bytes out.

- ``listener``    accepts connections for one named listener, bounds their number, closes idle and stuck ones
- ``arrivals``    connections on their way in through a TLS handshake
- ``first_record``   what must have come of one before it begins
- ``accepting``   their side of TLS, which does more than the event loops ask of it:
- ``alerts``      what clients are told that are turned away there
- ``tls_records`` what such a connection sends, a record at a time, so that nobody renews keys for ever
- ``handshakes``  why such handshakes fail, in words
- ``addresses``   how many come from each address
- ``certificates``   whom a certificate names
- ``stores``      keys and trusted certificates, from files
- ``connection``  one accepted connection: parses frames in place, keeps replies in request order, sends file regions
- ``breakable``   the same for tests that break it, over ``links`` that are cut or slow
- ``reply``       the place of one answer in its connection's order
- ``budget``      memory that connections together may hold, and the line of those that wait for it
- ``turns``       work of one turn of the loop, and the line for the next turns
- ``http``        a listener for GET: metrics and health checks
- ``liveness``    finds out that a peer is gone without reading from it
- ``outbox``      unsent bytes of a connection: one write per event, sendfile for large regions
- ``closings``    the log's lines on connections that were closed for what their peers did
- ``duplicates``  the share of file descriptors for sendfile
- ``channel``     the dialling side: one outgoing connection, requests matched to responses by correlation id
- ``control``     both sides of the msgpack control plane over those
- ``strangers``   what a client of Kafka's protocol is told there
- ``probe``       finds out whether an endpoint refuses connections
- ``peer``        a connection to another node's REPLICATION listener
- ``identity``    proof of identity between nodes
- ``tasks``       every task has an owner that sees its exception
"""
