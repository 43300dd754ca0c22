"""Finds out whether an endpoint refuses connections. docs/internals/liveness.md says what this proves."""

from __future__ import annotations

import socket
from typing import Final

from minikafka.model import Endpoint
from minikafka.net.channel import Channel

NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})


async def is_refused(endpoint: Endpoint, *, timeout_s: float = 0.5) -> bool:
    """True when no process listens there: the port refuses, or the name does not exist.

    A paused or unreachable peer does not refuse; only its session timeout tells. A failing resolver (EAI_AGAIN, for
    example) proves nothing, and neither does this node's lack of descriptors or memory.
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
