from __future__ import annotations

import random
import socket

import pytest

from minikafka.chaos import ports
from minikafka.chaos.layout import ClusterError
from minikafka.chaos.ports import ReservedPorts, free_base_port, is_free


def test_a_port_that_is_listened_on_is_not_free() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        assert not is_free(port)
    assert is_free(port)


def test_a_port_for_root_only_is_told_from_one_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError

    monkeypatch.setattr(ports.socket.socket, "bind", refuse)
    with pytest.raises(ClusterError, match="port 80 is for root only; choose a --base-port of 1024 or more"):
        is_free(80)


def test_all_ports_above_a_free_base_port_are_free() -> None:
    base_port = free_base_port(3, random.Random(1))
    assert 11_000 <= base_port < 32_000
    assert all(is_free(base_port + offset + n) for offset in (0, 100, 200) for n in range(3))


def test_reserved_ports_are_nobody_elses_and_brokers_may_listen_on_them() -> None:
    reserved = ReservedPorts(2)
    ports_of_two = [reserved.base_port + offset + n for offset in (0, 100, 200, 300) for n in range(2)]
    assert all(map(is_free, ports_of_two))
    for port in ports_of_two:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(("127.0.0.1", port))
        for _ in range(2):
            with socket.create_server(("127.0.0.1", port)) as server:
                assert not is_free(port)
                socket.create_connection(server.getsockname()).close()
    reserved.close()
    with socket.socket() as other:
        other.bind(("127.0.0.1", reserved.base_port + 1))


def test_a_machine_without_free_ports_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise OSError

    monkeypatch.setattr(ports.socket.socket, "bind", refuse)
    with pytest.raises(ClusterError, match="no free ports"):
        free_base_port(1)
