"""Finds out whether an endpoint refuses connections. docs/internals/liveness.md says what this proves."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from minikafka.model import Endpoint
from minikafka.net.channel import Channel

NO_SUCH_NAME: Final = frozenset({socket.EAI_NONAME, getattr(socket, "EAI_NODATA", socket.EAI_NONAME)})
ANSWER_TIMEOUT_S: Final = 0.02  # of a process that lives, unless it is paused or very busy
AGAIN_AFTER_S: Final = 0.001


async def is_refused(endpoint: Endpoint, *, timeout_s: float = 0.5) -> bool:
    """True when no process listens there: the port refuses, or the name does not exist.

    A paused or unreachable peer does not refuse; only its session timeout tells. A failing resolver (EAI_AGAIN, for
    example) proves nothing, and neither does this node's lack of descriptors or memory.

    The kernel closes what a killed process had open one by one, its listeners last. Until then their ports take
    connections, which nobody accepts and which are reset. So one that is reset proves nothing; the port is tried again.
    """
    try:
        async with asyncio.timeout(timeout_s):
            while True:
                if not await _is_reset(endpoint, timeout_s):
                    return False
                await asyncio.sleep(AGAIN_AFTER_S)
    except TimeoutError:
        return False
    except socket.gaierror as error:
        return error.errno in NO_SUCH_NAME
    except OSError as error:
        return isinstance(error, ConnectionRefusedError)


async def _is_reset(endpoint: Endpoint, timeout_s: float) -> bool:
    """Connect and end the connection: whoever accepts it ends it, too. OSError as of :meth:`Channel.open`."""
    try:
        channel = await Channel.open(endpoint, timeout_s=timeout_s)
    except ConnectionResetError:
        return True
    try:
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return await channel.end()
    except TimeoutError:
        return False
    finally:
        channel.close()
