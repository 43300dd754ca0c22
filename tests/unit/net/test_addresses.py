from __future__ import annotations

from minikafka.net.addresses import Addresses, too_many_of


def test_some_addresses_have_bounds_of_their_own() -> None:
    addresses = Addresses(1, {"10.0.0.1": 2, "::1": 0})
    assert [addresses.enter("10.0.0.2") for _ in range(2)] == [True, False]
    assert [addresses.enter("10.0.0.1") for _ in range(3)] == [True, True, False]
    assert not addresses.enter("::1")
    addresses.leave("10.0.0.2")
    assert addresses.enter("10.0.0.2")


def test_an_ipv4_address_at_a_socket_for_both_is_the_same() -> None:
    addresses = Addresses(5, {"10.0.0.1": 1})
    assert [addresses.enter("::ffff:10.0.0.1") for _ in range(2)] == [True, False]
    assert too_many_of(addresses, "::ffff:10.0.0.1").startswith("more than 1 connections of this address; raise ")
