"""Whether a node serves clients, and why not."""

from __future__ import annotations

from minikafka.broker.drivers.controller_client import ControllerClient
from minikafka.broker.drivers.lifecycle import Lifecycle


def why_not_ready(lifecycle: Lifecycle, controller: ControllerClient, session_ms: int, now_s: float) -> str | None:
    """The reason in one line; None when the node is registered and not fenced.

    ``session_ms``: after so long without an answer to a heartbeat the controller, if there is one, fences the node.
    """
    contact = f": {controller.contact}" if controller.contact else ""
    if lifecycle.is_leaving:
        return "the node is stopping"
    if lifecycle.broker_epoch < 0:
        return f"not registered with the controller yet{contact}"
    if lifecycle.is_fenced:
        return f"fenced by the controller{contact}"
    silent_s = now_s - (lifecycle.answered_at_s or now_s)
    if silent_s * 1000 > session_ms:
        return f"the controller has not answered for {silent_s:.0f} s{contact}"
    return None
