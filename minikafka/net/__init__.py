"""asyncio sockets and nothing else: bytes in, frames up; replies down, bytes out.

- ``listener``    accepts connections for one named listener, bounds their number, closes the idle and the stuck
- ``connection``  one accepted connection: parses frames in place, keeps replies in request order, sends file regions
- ``reply``       the place of one answer in its connection's order
- ``budget``      memory that connections together may hold, and who waits for some
- ``turns``       how much a turn of the loop handles, and who goes on in the next
- ``http``        a listener for GET: metrics and health checks
- ``liveness``    whether a peer that is not read from is still there
- ``outbox``      the bytes a connection still owes its peer: one write per event, sendfile for large regions
- ``duplicates``  the share of descriptors that sendfile may use
- ``channel``     the dialling side: one outgoing connection, requests matched to responses by correlation id
- ``control``     both sides of the msgpack control plane over those
- ``probe``       whether anybody listens at an endpoint
- ``peer``        a connection to another node's REPLICATION listener
- ``identity``    who this node is to its peers, and how both prove it
- ``tasks``       every task has an owner that sees its exception
"""
