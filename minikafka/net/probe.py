"""Looks whether anybody listens at an endpoint (docs/internals/liveness.md: what that is evidence of)."""

from __future__ import annotations

import socket
from typing import Final

from minikafka.model import Endpoint
from minikafka.net.channel import Channel

NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


async def is_refused(endpoint: Endpoint, *, timeout_s: float = 0.5) -> bool:
    """True when nobody listens there any more: the port refuses, or the name does not exist.

    A peer that is paused or cut off does not refuse, and for that one only a session time-out speaks. A resolver that
    fails (EAI_AGAIN, for example) says nothing of the peer, and nor does this node's lack of descriptors or memory.
    """
    try:
        channel = await Channel.open(endpoint, timeout_s=timeout_s)
    except TimeoutError:
        return False
    except socket.gaierror as error:
        return error.errno in NO_SUCH_NAME
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)
    channel.close()
    return False
