"""TLS whose certificates nobody decodes. Event loops have Python do so when hands are shaken, for whoever may ask, and
end the connection where a name is not text: nobody asks, and OpenSSL has compared the host's name by then."""

from __future__ import annotations

import ssl
from typing import Any


class Undecoded(ssl.SSLObject):
    """Either side of a connection: a context's ``sslobject_class``."""

    def getpeercert(self, binary_form: bool = False) -> Any:
        """As the base class, but in DER or not at all."""
        return super().getpeercert(binary_form=True) if binary_form else None
