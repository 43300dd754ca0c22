"""The HTTP listener of a node: /metrics for Prometheus, /healthz and /readyz for whoever starts and watches nodes."""

from __future__ import annotations

import asyncio
from http import HTTPStatus
from types import ModuleType
from typing import Final

from minikafka.broker.metrics.collect import Sources, collect
from minikafka.broker.metrics.health import why_not_ready
from minikafka.broker.ports import Ports
from minikafka.event_log import get_logger
from minikafka.model import Endpoint
from minikafka.net.http import Answer, HttpListener, refuse

log = get_logger()

NAME: Final = "METRICS"
INSTALL: Final = "prometheus-client is not installed; pip install 'minikafka[metrics]'"
FRESH_S: Final = 0.2
"""A scrape is answered with the last one's text, if that is no older: many scrapers cost no more than five a second."""


class MetricsEndpoint:
    """Serves from before the node registers until its listeners close."""

    def __init__(self, ports: Ports, at: Endpoint, sources: Sources) -> None:
        self._sources = sources
        self._session_ms = ports.config.broker_session_timeout_ms
        self._loop = asyncio.get_running_loop()
        self._exposition = _exposition()
        self._scraping = asyncio.Lock()
        self._text = b""
        self._text_at_s = -FRESH_S
        routes = {"/metrics": self._metrics, "/healthz": self._healthz, "/readyz": self._readyz}
        self.listener = HttpListener(NAME, at, routes, ports.tasks)

    async def start(self) -> None:
        """OSError when the port is taken."""
        await self.listener.bind()
        await self.listener.serve()
        self._sources.loop_lag.start()
        if self._exposition is None:
            log.warning("no metrics", why=INSTALL)
        log.info("metrics served", url=f"http://{self.listener.endpoint}/metrics")

    async def close(self) -> None:
        """Close the listener and all its connections."""
        self._sources.loop_lag.stop()
        await self.listener.close()

    async def _healthz(self) -> Answer:
        """That there is an answer says it: the loop turns."""
        return Answer(HTTPStatus.OK, b"ok\n")

    async def _readyz(self) -> Answer:
        control = self._sources.control
        why = why_not_ready(control.lifecycle, control.client, self._session_ms, self._loop.time())
        return Answer(HTTPStatus.OK, b"ready\n") if why is None else refuse(HTTPStatus.SERVICE_UNAVAILABLE, why)

    async def _metrics(self) -> Answer:
        exposition = self._exposition
        if exposition is None:
            return refuse(HTTPStatus.NOT_IMPLEMENTED, INSTALL)
        async with self._scraping:
            if self._loop.time() - self._text_at_s >= FRESH_S:
                parts = [exposition.process_text()]
                for family in collect(self._sources):
                    for portion in exposition.portions(family) if family is not None else (b"",):
                        parts.append(portion)
                        await asyncio.sleep(0)  # others first
                self._text, self._text_at_s = b"".join(parts), self._loop.time()
        return Answer(HTTPStatus.OK, self._text, exposition.CONTENT_TYPE)


def _exposition() -> ModuleType | None:
    """None without the library that it needs."""
    try:
        from minikafka.broker.metrics import exposition
    except ImportError:
        return None
    return exposition
