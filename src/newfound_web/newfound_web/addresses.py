# SPDX-License-Identifier: Apache-2.0
"""Connect to public addresses only (SSRF protection): no link leads into the robot's network.

The check is part of opening the connection: the address that was resolved and checked is the one
connected to, so DNS rebinding gains nothing, and every redirect is checked too.
"""

import asyncio
import ipaddress
import socket
from collections.abc import Iterable

import httpcore2

from newfound_web.errors import RefusedError

Address = ipaddress.IPv4Address | ipaddress.IPv6Address

CONNECT_TIMEOUT = 4.0  # s, then the next address of the host is tried
_NAT64 = ipaddress.ip_network("64:ff9b::/96")
# Public by number, but the metadata service of every Azure machine.
_AZURE_METADATA = ipaddress.ip_address("168.63.129.16")


def is_public(text: str) -> bool:
    """Whether this IP address belongs to the public internet."""
    address = ipaddress.ip_address(text.partition("%")[0])
    return all(_is_public(each) for each in (address, *_embedded(address)))


def _is_public(address: Address) -> bool:
    return address.is_global and not address.is_multicast and address != _AZURE_METADATA


def _embedded(address: Address) -> Iterable[Address]:
    """IPv4 addresses that an IPv6 address embeds."""
    if isinstance(address, ipaddress.IPv4Address):
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
    if address.sixtofour is not None:
        yield address.sixtofour
    if address in _NAT64:
        yield ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)


class PublicNetwork(httpcore2.AsyncNetworkBackend):
    """Resolves a host, refuses it unless all its addresses are public, connects to one of them.

    `exceptions` are hosts that may be private, as "host" or "host:port": a local mirror, or the
    server of a test.
    """

    def __init__(self, exceptions: Iterable[str] = ()) -> None:
        self._exceptions = frozenset(exceptions)
        self._network = httpcore2.AnyIOBackend()

    async def connect_tcp(  # noqa: D102 - as the base class
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[httpcore2.SOCKET_OPTION] | None = None,
    ) -> httpcore2.AsyncNetworkStream:
        addresses = await self._resolve(host, port)
        if not self._exceptions & {host, f"{host}:{port}"}:
            for address in addresses:
                if not is_public(address):
                    raise RefusedError(
                        f"{host} resolves to {address}, which is not a public address"
                    )
        failure: Exception = httpcore2.ConnectError(f"{host} has no address")
        for address in addresses:
            try:
                return await self._network.connect_tcp(
                    address,
                    port,
                    min(timeout or CONNECT_TIMEOUT, CONNECT_TIMEOUT),
                    local_address,
                    socket_options,
                )
            except (httpcore2.ConnectError, httpcore2.ConnectTimeout) as error:
                failure = error
        raise failure

    async def _resolve(self, host: str, port: int) -> list[str]:
        loop = asyncio.get_running_loop()
        try:
            found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        except (OSError, UnicodeError) as error:
            raise httpcore2.ConnectError(f"{host} cannot be found") from error
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))
