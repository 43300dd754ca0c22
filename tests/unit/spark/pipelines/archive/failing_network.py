"""A network that fails: ``python failing_network.py PORT SEED`` forwards connections to a port, and prints its own.

One answer in ten is lost with its connection, after the server has done what was asked.
"""

from __future__ import annotations

import asyncio
import random
import sys
from contextlib import suppress

LOST = 0.1


async def serve(port: int, rng: random.Random) -> None:
    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        from_server, to_server = await asyncio.open_connection("127.0.0.1", port)
        requests = asyncio.create_task(forward(reader, to_server, 0.0))
        with suppress(OSError):
            await forward(from_server, writer, LOST)
        requests.cancel()
        for each in (writer, to_server):
            each.transport.abort()

    async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, lost: float) -> None:
        while (data := await reader.read(1 << 16)) and rng.random() >= lost:
            writer.write(data)
            await writer.drain()

    server = await asyncio.start_server(connected, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), random.Random(int(sys.argv[2]))))
