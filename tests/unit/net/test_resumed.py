"""Sessions that are resumed after the certificate of whoever began them has expired."""

from __future__ import annotations

import ssl
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from time import time

import pytest
import trustme

from minikafka.net.accepting import AcceptingContext

AUTHORITY = trustme.CA()
LIFETIME_S = 3600


def own(path: Path, name: str) -> str:
    issued = AUTHORITY.issue_cert(name, not_after=datetime.now(UTC) + timedelta(seconds=LIFETIME_S))
    issued.private_key_and_cert_chain_pem.write_to_path(str(path / name))
    return str(path / name)


def resumed(server: ssl.SSLContext, client: ssl.SSLContext, session: ssl.SSLSession | None) -> ssl.SSLObject:
    """The client's end of a handshake in memory, and of the first bytes of the server."""
    ways = [ssl.MemoryBIO() for _ in range(4)]
    ours = client.wrap_bio(ways[0], ways[1], server_hostname="broker", session=session)
    theirs = server.wrap_bio(ways[2], ways[3], server_side=True)
    for _ in range(4):
        for end, to, come in ((ours, ways[2], ways[1]), (theirs, ways[0], ways[3])):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
            to.write(come.read())
    theirs.write(b"behind the tickets of TLS 1.3")
    ways[0].write(ways[3].read())
    ours.read()
    return ours


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3])
def test_a_certificate_that_has_expired_gets_in_by_no_former_session(tmp_path: Path, version: ssl.TLSVersion) -> None:
    now_s = time()
    server, client = AcceptingContext(ssl.PROTOCOL_TLS_SERVER), ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    server.now_s = lambda: now_s
    server.verify_mode = ssl.CERT_REQUIRED
    client.minimum_version = client.maximum_version = version
    for context, name in ((server, "broker"), (client, "alice")):
        AUTHORITY.configure_trust(context)
        context.load_cert_chain(own(tmp_path, name))
    session = resumed(server, client, None).session
    again = resumed(server, client, session)
    assert again.session_reused
    now_s += LIFETIME_S + 1
    with pytest.raises(ssl.SSLCertVerificationError, match="certificate has expired"):
        resumed(server, client, again.session)
