"""Why TLS handshakes fail, in words: with who connects to this node, and with whom this node, or a client, connects to.

OpenSSL has a name for each reason, and Python words around it; neither says what to do.
"""

from __future__ import annotations

import ssl
from typing import Final

from minikafka.event_log import get_logger

log = get_logger()

_EXPECTED: Final = "it does not speak TLS; set security.protocol=SSL or use another port"
_OLD: Final = "it speaks a version of TLS that is not allowed here"
_REFUSES: Final = "it refuses this node's certificate"
_REASONS: Final = {
    "WRONG_VERSION_NUMBER": _EXPECTED,
    "HTTP_REQUEST": _EXPECTED,
    "HTTPS_PROXY_REQUEST": _EXPECTED,
    "UNSUPPORTED_PROTOCOL": _OLD,
    "VERSION_TOO_LOW": _OLD,
    "NO_SHARED_CIPHER": "no cipher of it is known here",
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "it has no certificate, and ssl.client.auth wants one",
    "SSLV3_ALERT_CERTIFICATE_EXPIRED": f"{_REFUSES}: it has expired",
    "TLSV1_ALERT_UNKNOWN_CA": f"{_REFUSES}: it does not know who issued it",
    "SSLV3_ALERT_BAD_CERTIFICATE": f"{_REFUSES}: it does not name the host, or is damaged",
    "SSLV3_ALERT_CERTIFICATE_UNKNOWN": f"{_REFUSES}; its own log says why",
}
"""Of who connects, by OpenSSL's names."""
_NODE_SILENT: Final = "it does not speak TLS, or refuses this node's certificate; its log says which"


def why_turned_away(error: OSError) -> str:
    """Of who connects to this node; OpenSSL's own words for what is rare."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return _REASONS.get(error.reason or "") or error.reason or str(error)
    return error.strerror or str(error)


def why_not_reached(error: OSError, silent: str) -> str | None:
    """Of who is connected to; ``silent``: if it ended the connection without a word. None: it is not about TLS."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is refused: {error.verify_message.rstrip('.')}"
    if isinstance(error, ssl.SSLError):
        return f"TLS handshake: {error.reason or error}"
    if isinstance(error, ConnectionError) and not isinstance(error, ConnectionRefusedError):
        return silent
    return None


class PeerHandshakes:
    """Says why other nodes cannot be connected to: when it fails for the same reason again, and then no more.

    Once is nothing to speak of: a node that is killed may be in the middle of it.
    """

    def __init__(self) -> None:
        self._reasons: dict[tuple[str, int], str] = {}
        self._said: set[tuple[str, int]] = set()

    def failed(self, listener: str, peer_id: int, error: OSError) -> None:
        """A connection to a node's listener that speaks TLS was not made."""
        why, key = why_not_reached(error, _NODE_SILENT), (listener, peer_id)
        if why is None:
            return
        if self._reasons.get(key) != why:
            self._reasons[key] = why
            self._said.discard(key)
        elif key not in self._said:
            self._said.add(key)
            log.warning("node not reached over TLS", listener=listener, peer=peer_id, why=why)

    def succeeded(self, listener: str, peer_id: int) -> None:
        """It was made."""
        self._reasons.pop((listener, peer_id), None)
        self._said.discard((listener, peer_id))
