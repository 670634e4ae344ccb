# SPDX-License-Identifier: Apache-2.0
"""Only public addresses are connected to, whatever name or form they come in."""

import asyncio

import httpcore2
import pytest

from newfound_web.addresses import PublicNetwork, is_public
from newfound_web.errors import RefusedError

PRIVATE = [
    "127.0.0.1", "127.8.8.8", "0.0.0.0", "10.1.2.3", "172.16.0.1", "192.168.1.1",
    "169.254.169.254", "100.64.0.1", "100.100.100.200", "168.63.129.16", "224.0.1.1",
    "255.255.255.255", "240.0.0.1", "192.0.0.1", "198.18.0.1", "203.0.113.9",
    "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd00:ec2::254", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254",
    "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "2002:7f00:1::", "2002:a00:1::", "2001:db8::1",
]  # fmt: skip
PUBLIC = ["8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::808:808", "172.32.0.1"]


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_of_the_inside_is_not_public(address):
    assert not is_public(address)


@pytest.mark.parametrize("address", PUBLIC)
def test_an_address_of_the_outside_is_public(address):
    assert is_public(address)


def look_up(*addresses):
    """A name server that knows one answer for every name."""

    async def answer(host, port):
        return list(addresses)

    return answer


class Recorder:
    """Connects to nothing, and remembers to what."""

    def __init__(self):
        self.connected = []

    async def connect_tcp(self, host, port, *_):
        self.connected.append((host, port))
        if host.startswith("8.8."):
            raise httpcore2.ConnectError("down")
        return object()


def connect(network, host="photos.example", port=443):
    recorder = network._network = Recorder()
    asyncio.run(network.connect_tcp(host, port))
    return recorder.connected


def test_the_address_that_was_judged_is_the_one_connected_to():
    network = PublicNetwork()
    network._resolve = look_up("93.184.216.34")
    assert connect(network) == [("93.184.216.34", 443)]


def test_a_name_with_one_private_address_among_public_ones_is_refused():
    network = PublicNetwork()
    network._resolve = look_up("93.184.216.34", "10.0.0.1")
    with pytest.raises(RefusedError, match=r"photos.example resolves to 10\.0\.0\.1"):
        connect(network)


def test_the_next_address_is_tried_when_one_is_down():
    network = PublicNetwork()
    network._resolve = look_up("8.8.8.8", "93.184.216.34")
    assert connect(network) == [("8.8.8.8", 443), ("93.184.216.34", 443)]


def test_an_exception_holds_for_its_port_only():
    network = PublicNetwork(["127.0.0.1:8080"])
    assert connect(network, "127.0.0.1", 8080) == [("127.0.0.1", 8080)]
    with pytest.raises(RefusedError):
        connect(network, "127.0.0.1", 22)


@pytest.mark.parametrize("host", ["localhost", "127.1", "0x7f000001", "2130706433", "0177.0.0.1"])
def test_loopback_in_disguise_is_refused(host):
    with pytest.raises((RefusedError, httpcore2.ConnectError)):
        connect(PublicNetwork(), host)
