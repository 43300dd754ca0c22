"""TLS of who accepts connections. Event loops carry it out with memory for a socket, and leave to OpenSSL what it says.

What is more is here: who is turned away is told (``alerts``), nobody's records cost too much (``tls_records``), and
nobody resumes a session with a certificate that has expired (``resumed``).
"""

from __future__ import annotations

import ssl
from collections.abc import Callable

from minikafka.net.alerts import ARRIVING, Alerting
from minikafka.net.resumed import Unexpired
from minikafka.net.tls_records import FewRecords
from minikafka.net.undecoded import Undecoded


class _Accepted(Alerting, Unexpired, FewRecords, Undecoded):
    """This side of a connection."""


class AcceptingContext(ssl.SSLContext):
    """Of a node's listeners. ``now_s``: the wall clock, in seconds."""

    sslobject_class = _Accepted
    now_s: Callable[[], float]

    def wrap_bio(
        self,
        incoming: ssl.MemoryBIO,
        outgoing: ssl.MemoryBIO,
        server_side: bool = False,
        server_hostname: str | bytes | None = None,
        session: ssl.SSLSession | None = None,
    ) -> ssl.SSLObject:
        """As the base class."""
        taken = ssl.MemoryBIO()
        accepted = super().wrap_bio(taken, outgoing, server_side, server_hostname, session)
        assert isinstance(accepted, _Accepted)
        accepted.take_from(incoming, taken, outgoing)
        accepted.look_at(self.now_s)
        accepted.tell(outgoing, ARRIVING.get(None))
        return accepted
