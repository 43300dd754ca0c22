"""All faults of one node, and the commands that change them: calls on the CONTROLLER listener, by who knows the secret.

A command is ``{"do": NAME, ...}``; the answer has all faults that are in force then, a sentence each::

    link    peer (a node id; None: clients), changes: fields of net.links.Condition
    clock   off_ms, drift
    disk    changes: fields of broker.faults.disk.Trouble
    rule    api, effect, and further fields of broker.faults.rules.Rule; the answer has its number
    unrule  number
    heal    everything, or what: one of links, clock, disk, rules
    list
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from difflib import get_close_matches
from typing import Any, Final

from minikafka.broker.faults.clock import WrongClock
from minikafka.broker.faults.disk import Trouble, TroubledDisk
from minikafka.broker.faults.platter import Platter
from minikafka.broker.faults.rules import Effect, Rule, Rules
from minikafka.config.node import CONTROLLER, REPLICATION
from minikafka.errors import ErrorCode, KafkaError
from minikafka.event_log import get_logger
from minikafka.net.links import Condition, Links
from minikafka.wire.api import ApiKey
from minikafka.wire.refusals import has_error
from minikafka.wire.schema import VersionRange

log = get_logger()

METHOD: Final = "faults"
APIS: Final = {key.camel_name.lower(): key for key in ApiKey if "CLIENT" in key.listeners}
"""What rules may be for."""
OFF_MS_MAX: Final = 20 * 365 * 24 * 3_600_000
"""Of a clock: earlier and later times are none to Kafka, or to the log of the node."""
COUNT_MAX: Final = 2**31 - 1
DRIFT_MAX: Final = 1_000
"""Of a clock: seconds for each second."""


class Faults:
    """Those of one node. Made before it, because disk and clock are inputs of a node."""

    def __init__(
        self, wall_s: Callable[[], float], sleep: Callable[[float], None], log_dirs: Iterable[str] = ()
    ) -> None:
        """What a disk that lied has lost is lost from here on."""
        self.platter = Platter(log_dirs)
        self.platter.lose()
        self.links = Links(frozenset((CONTROLLER, REPLICATION)))
        self.rules = Rules()
        self.clock = WrongClock(wall_s)
        self.disk = TroubledDisk(sleep, self.platter)
        self._commands: dict[str, Callable[[Mapping[str, Any]], dict[str, Any]]] = {
            "link": self._link,
            "clock": self._clock,
            "disk": self._disk,
            "rule": self._rule,
            "unrule": self._unrule,
            "heal": self._heal,
            "list": lambda body: {},
        }

    async def handle_call(self, peer_id: int, body: Any) -> Any:
        """Carry out a command. KafkaError(INVALID_REQUEST) for one that cannot be."""
        try:
            answer = self._commands[body["do"]](body)
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            raise KafkaError(ErrorCode.INVALID_REQUEST, f"no such fault: {body!r:.200} ({error!r})") from error
        if body["do"] != "list":
            log.warning("faults of a test", command=body, now=self.sentences() or "none")
        return {**answer, "faults": self.sentences()}

    def sentences(self) -> list[str]:
        """What is broken now."""
        links = sorted(self.links.broken.items(), key=lambda item: -1 if item[0] is None else item[0])
        sentences = [sentence for peer, condition in links for sentence in _of_link(peer, condition)]
        if self.clock.is_wrong:
            sentences.append(f"the clock is wrong by {self.clock.off_ms:+,} ms")
        return sentences + _of_disk(self.disk.trouble) + [str(rule) for rule in self.rules]

    # -- commands ---------------------------------------------------------------------------------------------------

    def _link(self, body: Mapping[str, Any]) -> dict[str, Any]:
        peer = body["peer"]
        _check(peer is None or type(peer) is int, f"{peer!r} is no node")
        self.links.change(peer, **_changes(Condition, body))
        return {}

    def _clock(self, body: Mapping[str, Any]) -> dict[str, Any]:
        off_ms, drift = body["off_ms"], float(body["drift"])
        _check(type(off_ms) is int and abs(off_ms) <= OFF_MS_MAX, f"a clock is wrong by {OFF_MS_MAX:,} ms at most")
        _check(abs(drift) <= DRIFT_MAX, f"a clock drifts by {DRIFT_MAX} s a second at most")
        self.clock.set(off_ms, drift)
        return {}

    def _disk(self, body: Mapping[str, Any]) -> dict[str, Any]:
        try:
            self.disk.change(**_changes(Trouble, body))
        except OSError as error:
            raise _wrong(f"the disk cannot begin to lie: {error}") from error
        return {}

    def _rule(self, body: Mapping[str, Any]) -> dict[str, Any]:
        rule = _parsed(body)
        self.rules.add(rule)
        return {"number": rule.number}

    def _unrule(self, body: Mapping[str, Any]) -> dict[str, Any]:
        number = body["number"]
        _check(self.rules.remove(number), f"there is no rule {number}")
        return {}

    def _heal(self, body: Mapping[str, Any]) -> dict[str, Any]:
        what = body.get("what")
        _check(what in (None, "links", "clock", "disk", "rules"), f"nothing can be healed that is {what!r}")
        if what in (None, "links"):
            self.links.heal()
        if what in (None, "rules"):
            self.rules.clear()
            self.links.hasten()
        if what in (None, "clock"):
            self.clock.set(0)
        if what in (None, "disk"):
            self._disk({"changes": {field.name: field.default for field in fields(Trouble)}})
        return {}


def _parsed(body: Mapping[str, Any]) -> Rule:
    api = APIS.get(str(body["api"]).replace("_", "").lower())
    if api is None:
        hint = _meant(str(body["api"]), [key.camel_name for key in APIS.values()])
        hint = hint or "; names are Kafka's, such as Produce or FindCoordinator"
        raise _wrong(f"clients have no API {body['api']!r}{hint}")
    effect = Effect(body["effect"])
    error = ErrorCode.NONE
    if effect is Effect.ERROR:
        name = str(body.get("error")).upper()
        names = [each.name for each in ErrorCode if each]
        _check(name in names, f"Kafka has no error {name!r}{_meant(name, names)}")
        _check(has_error(api.response_class), f"answers of {api.camel_name} have no room for an error")
        error = ErrorCode[name]
    versions = None
    if effect is Effect.VERSIONS:
        _check(api is not ApiKey.API_VERSIONS, "the versions of ApiVersions itself cannot be fewer")
        try:
            versions = VersionRange.parse(str(body["versions"]))
        except ValueError:
            raise _wrong(f"{body['versions']!r} are no versions; write 3, 0-3 or 5+") from None
        first, last = max(versions.first, api.versions.first), min(versions.last, api.versions.last)
        _check(first <= last, f"none of {versions} is a version of {api.camel_name} here: {api.versions}")
    client_id, times, delay_ms = body.get("client_id"), body.get("times"), body.get("delay_ms") or 0
    _check(client_id is None or isinstance(client_id, str), f"{client_id!r} is no pattern")
    _check(times is None or _is_count(times, 1), f"a rule is for 1 request or more, not for {times!r}")
    _check(times is None or versions is None, "an older broker stays one: such a rule has no number of times")
    _check(_is_count(delay_ms), f"no answer comes {delay_ms!r} ms late")
    return Rule(api, effect, client_id, times, bool(body.get("is_after")), error, delay_ms, versions)


def _changes(kind: type[Condition] | type[Trouble], body: Mapping[str, Any]) -> dict[str, Any]:
    """The new values of fields, each of its field's type and not negative."""
    types = {field.name: field.type for field in fields(kind)}
    changes: dict[str, Any] = body["changes"]
    for name, value in changes.items():
        _check(types.get(name) == type(value).__name__ and _is_count(value), f"{name} cannot be {value!r}")
    return changes


def _is_count(value: Any, least: int = 0) -> bool:
    return isinstance(value, int) and least <= value <= COUNT_MAX


def _check(is_right: bool, message: str) -> None:
    if not is_right:
        raise _wrong(message)


def _meant(name: str, names: list[str]) -> str:
    near = get_close_matches(name, names, 1)
    return f"; did you mean {near[0]}?" if near else ""


def _wrong(message: str) -> KafkaError:
    return KafkaError(ErrorCode.INVALID_REQUEST, message)


def _of_link(peer: int | None, condition: Condition) -> list[str]:
    other = "clients" if peer is None else f"node {peer}"
    sentences = []
    if condition.is_cut_in:
        sentences.append(f"nothing arrives from {other}")
    if condition.is_cut_out:
        sentences.append(f"nothing arrives at {other}")
    if condition.delay_ms:
        sentences.append(f"answers to {other} are {condition.delay_ms:,} ms late")
    if condition.bytes_per_s:
        sentences.append(f"answers to {other} pass at {condition.bytes_per_s:,} bytes a second")
    return sentences


def _of_disk(trouble: Trouble) -> list[str]:
    sentences = ["the disk is full"] if trouble.is_full else []
    if trouble.sync_delay_ms:
        sentences.append(f"each sync of the disk takes {trouble.sync_delay_ms:,} ms longer")
    if trouble.is_unreadable:
        sentences.append("logs cannot be read")
    if trouble.is_lying:
        sentences.append("what is written is lost when the node is killed, whatever the disk says of syncs")
    return sentences
