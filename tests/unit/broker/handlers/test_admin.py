from __future__ import annotations

import gc
import weakref

from minikafka.broker.handlers.admin import asked_in_portions
from minikafka.errors import ErrorCode, KafkaError


class Resource:
    """What is asked about."""


async def test_what_was_asked_in_vain_is_freed_at_once() -> None:
    """A turn of 80 ms was a garbage collection of such requests."""

    async def ask(_some: object) -> list[object]:
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "there is none")

    resource = Resource()
    kept = weakref.ref(resource)
    gc.disable()
    try:
        results = await asked_in_portions([[resource], [resource]], ask, lambda _each, error: error.code)
        del resource
        assert results == [ErrorCode.NOT_CONTROLLER] * 2
        assert kept() is None
    finally:
        gc.enable()
