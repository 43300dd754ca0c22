"""A TLS handshake in memory, to see whether one over a connection would succeed."""

from __future__ import annotations

import ssl
from contextlib import suppress
from typing import Final

_FLIGHTS: Final = 3
"""Of each side, at most: TLS 1.2 has two."""


def rehearse(dialling: ssl.SSLContext, accepting: ssl.SSLContext, host: str) -> None:
    """Shake hands as the two would by a connection to the host. SSLError if either refuses the other."""
    ways = [ssl.MemoryBIO() for _ in range(4)]
    ours = dialling.wrap_bio(ways[0], ways[1], server_hostname=host)
    theirs = accepting.wrap_bio(ways[2], ways[3], server_side=True)
    for _ in range(_FLIGHTS):
        for end, to, come in ((ours, ways[2], ways[1]), (theirs, ways[0], ways[3])):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            to.write(come.read())
    for end in (ours, theirs):
        end.do_handshake()  # of which nothing is left
