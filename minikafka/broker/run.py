"""One node as a process: configuration, signals, and a garbage collector without long pauses."""

from __future__ import annotations

import asyncio
import gc
import os
import random
import signal
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final
from uuid import uuid4

import uvloop

from minikafka.broker.clock import Clock
from minikafka.broker.credentials import Credentials, credentials_of, warn_if_others_read, warn_of_readers
from minikafka.broker.descriptors import raise_limit
from minikafka.broker.drivers.metadata_log import DamagedMetadataLogError
from minikafka.broker.faults.switchboard import Faults
from minikafka.broker.heap import Heap, give_back_holes
from minikafka.broker.logs import configure_logging, keep_standard_descriptors, one_line
from minikafka.broker.loop_watch import watch_of
from minikafka.broker.node import Node
from minikafka.config import BrokerConfig, ConfigError, environment_settings, parse_properties, parse_toml, secrets_in
from minikafka.errors import KafkaError
from minikafka.event_log import get_logger
from minikafka.storage.disk import OsDisk
from minikafka.storage.errors import DISK_REMEDY, is_full
from minikafka.storage.meta import META_REMEDY, DamagedMetaError, MetaError, format_uuid, read_meta

log = get_logger()

STANDARD_INPUT: Final = 0
CANNOT_RUN: Final = (MetaError, KafkaError, OSError)
"""What a node cannot be made or started for, and says in one line."""
START_AGAIN: Final = 3
"""The metadata log is damaged, and is repaired when the node starts again: the process begins anew, with its number."""
BOOT_ID_FILE = "/proc/sys/kernel/random/boot_id"


def settings_in(path: str | None) -> dict[str, object]:
    """What a file says, by names or tables that spell them. Raises ConfigError."""
    if path is None:
        return {}
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError([f"cannot read {path}: {error.strerror}"]) from error
    except UnicodeDecodeError as error:
        raise ConfigError([f"cannot read {path}: it is not UTF-8 text"]) from error
    return dict(parse_toml(text)) if path.endswith(".toml") else dict(parse_properties(text))


def load_config(path: str | None, overrides: Iterable[str]) -> BrokerConfig:
    """File, then ``MINIKAFKA_*`` environment, then ``name=value`` overrides. ConfigError names every problem."""
    flags: dict[str, str] = {}
    for override in overrides:
        name, separator, value = override.partition("=")
        if not separator:
            raise ConfigError([f"--set {override!r} is not NAME=VALUE"])
        flags[name.strip()] = value.strip()
    return BrokerConfig(settings_in(path), environment_settings(os.environ), flags)


def run_node(path: str | None, overrides: Iterable[str], *, until_eof: bool = False) -> int:
    """Run until SIGTERM or SIGINT; returns the exit status. Errors of configuration are one line each.

    With `until_eof` the process ends at once, as if killed, when its standard input ends.
    """
    keep_standard_descriptors()
    try:
        config = load_config(path, overrides)
        credentials = credentials_of(config)
        secrets = secrets_in(settings_in(path))
    except ConfigError as error:
        print(f"minikafka broker: {error}", file=sys.stderr)
        return 2
    configure_logging(node_id=config.node_id, level=config.logging_level, as_json=config.logging_format == "json")
    if path is not None and secrets:
        warn_if_others_read(path, secrets[0])
    raise_limit()
    heap = Heap.of_process()
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            status = runner.run(_run(config, credentials, heap, until_eof, is_told_to_end := asyncio.Event()))
        if status != START_AGAIN:
            return status
        if is_told_to_end.is_set():
            return 1  # whoever told it waits for its end
        os.execv(sys.executable, [sys.executable, *sys.orig_argv[1:]])
    except CANNOT_RUN as error:
        log.critical("cannot run", why=why(error))
        return 1


def why(error: MetaError | KafkaError | OSError) -> str:
    """The error in one line, without class names for errors of our own; of a full disk with the remedy."""
    if isinstance(error, OSError):
        return f"{one_line(error)}; {DISK_REMEDY}" if is_full(error) else one_line(error)
    return (error.message if isinstance(error, KafkaError) else str(error)).replace("\n", " | ")


async def _run(
    config: BrokerConfig, credentials: Credentials, heap: Heap | None, until_eof: bool, is_told_to_end: asyncio.Event
) -> int:
    loop = asyncio.get_running_loop()
    if until_eof:
        loop.add_reader(STANDARD_INPUT, _end_at_eof)
    node = make_node(config, credentials)

    def end() -> None:
        is_told_to_end.set()
        node.stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, end)

    def on_started() -> None:
        _calm_garbage_collector()
        if heap is not None:
            node.tasks.start(give_back_holes(heap, node.threads.upkeep), "heap")

    return await serve(node, on_started=on_started)


def make_node(config: BrokerConfig, credentials: Credentials) -> Node:
    """A node of this machine, in the loop that runs. MetaError, KafkaError or OSError when its logs cannot be used."""
    warn_of_readers(config)
    if config.without_effect:
        log.warning("settings without effect", names=",".join(config.without_effect))
    faults = Faults(time.time, time.sleep, config.log_dirs) if config.fault_injection_enable else None
    disk = OsDisk() if faults is None else faults.disk
    loop = asyncio.get_running_loop()
    return Node(
        config,
        cluster_id=config.cluster_id or _single_node_cluster_id(config, disk),
        secret=credentials.secret,
        tls=credentials.tls,
        first_users=credentials.first_users,
        disk=disk,
        clock=Clock(loop) if faults is None else Clock(loop, faults.clock),
        rng=random.Random(),
        boot_id=_boot_id() if faults is None else faults.platter.boot_id(_boot_id()),
        faults=faults,
    )


async def serve(node: Node, *, on_started: Callable[[], None] = lambda: None) -> int:
    """Start the node, wait until it is to stop, and stop it. Returns the exit status; START_AGAIN: make it anew."""
    asyncio.get_running_loop().set_exception_handler(_log_unhandled)
    watch = watch_of(node.config)
    try:
        await node.start()
        on_started()
        if watch is not None:
            watch.start()
        await node.stopped.wait()
    finally:
        if watch is not None:
            watch.stop()
        await node.stop()
    if isinstance(node.failure, DamagedMetadataLogError) and not node.control_plane.raft.machine.vote_disabled:
        return START_AGAIN  # not if it is damaged while it is being repaired: then the disk is bad
    return 0 if node.failure is None else 1


def _end_at_eof() -> None:
    if not os.read(STANDARD_INPUT, 4096):
        log.critical("standard input ended", what="this process ends with it")
        os._exit(1)


def _log_unhandled(_loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
    """An exception that no callback caught: a bug, or a peer that vanished at a bad moment."""
    error = context.get("exception")
    if isinstance(error, OSError):  # for example a name lookup that failed after its time-out
        log.debug("a connection failed", what=context.get("message"), why=one_line(error))
        return
    log.error("unhandled in a callback", what=context.get("message"), exc_info=error if error is not None else False)


def _calm_garbage_collector() -> None:
    """Freeze the objects of the start, and collect the others rarely: a full collection pauses every client."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 100)


def _boot_id() -> str | None:
    """Linux's id of this boot of the machine; None on other systems."""
    try:
        return Path(BOOT_ID_FILE).read_text().strip() or None
    except OSError:
        return None


def _single_node_cluster_id(config: BrokerConfig, disk: OsDisk) -> str:
    """A node without peers and without a configured id keeps the id of its first start.

    MetaError when that id may be in an unreadable directory.
    """
    unread: MetaError | None = None
    for directory in config.log_dirs:
        try:
            meta = read_meta(disk, directory)
        except (DamagedMetaError, OSError) as error:
            remedy = "" if isinstance(error, DamagedMetaError) else f"; {META_REMEDY}"
            unread = unread or DamagedMetaError(f"{directory}: {error}{remedy}")
            continue
        if meta is not None:
            return meta.cluster_id
    if unread is not None:
        raise unread
    return format_uuid(uuid4())
