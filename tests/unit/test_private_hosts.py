"""A crawl stays out of the network that it runs in."""

from __future__ import annotations

import pytest

from crawler.private_hosts import PrivateHosts


@pytest.mark.parametrize(
    "address",
    [
        "127.0.0.1",
        "10.1.2.3",
        "172.17.0.1",
        "192.168.1.1",
        "169.254.169.254",
        "100.64.0.1",
        "0.0.0.0",
        "224.0.0.1",
        "::1",
        "fe80::1",
        "fd00::1",
        "::ffff:10.0.0.1",
    ],
)
def test_private_addresses_are_refused_unless_allowed(address: str) -> None:
    assert PrivateHosts("").refuses("a.example", address)
    assert PrivateHosts("b.example").refuses("a.example", address)
    assert not PrivateHosts("b.example, A.example").refuses("a.example", address)
    assert not PrivateHosts("*").refuses("a.example", address)


@pytest.mark.parametrize("address", ["8.8.8.8", "2606:4700::1111", "a.example", ""])
def test_public_addresses_and_names_pass(address: str) -> None:
    assert not PrivateHosts("").refuses("a.example", address)
