"""Sessions of TLS that are resumed, by who showed a certificate in an earlier connection, and shows none in this one.

OpenSSL looks at no certificate then, and gives the client another ticket. So one whose certificate has expired would
get in for ever, if only it came back within two hours. Whose issuer is not trusted any more gets in nowhere: other
files make another context, which knows no session of the former one.
"""

from __future__ import annotations

import ssl
from collections.abc import Callable
from typing import Final

from minikafka.net.certificates import expires_at_s

EXPIRED: Final = "certificate has expired"
"""OpenSSL's words."""


class Unexpired(ssl.SSLObject):
    """The server's side of a handshake."""

    _now_s: Callable[[], float]

    def look_at(self, now_s: Callable[[], float]) -> None:
        """``now_s`` is the wall clock, in seconds."""
        self._now_s = now_s

    def do_handshake(self) -> None:
        """As the base class. SSLCertVerificationError also for a certificate that has expired since it was shown."""
        super().do_handshake()
        if self.session_reused and self._has_expired():
            error = ssl.SSLCertVerificationError(ssl.SSL_ERROR_SSL, EXPIRED)
            error.reason, error.verify_message = "CERTIFICATE_VERIFY_FAILED", EXPIRED
            raise error

    def _has_expired(self) -> bool:
        certificate = self.getpeercert(binary_form=True)
        if certificate is None:  # nobody asked for one
            return False
        try:
            return expires_at_s(certificate) < self._now_s()
        except ValueError:
            return True
