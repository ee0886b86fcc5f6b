"""Which addresses an action may connect to.

A host's name is resolved once, every address that it has is looked at, and the connection goes to
one of those that were looked at: a name that means something else a moment later (DNS rebinding)
leads nowhere. IPv4 addresses inside IPv6 ones (mapped, NAT64, 6to4, Teredo, ISATAP) are taken out
and looked at as well; decimal and octal spellings are the resolver's, and are seen as what they
mean.
"""

from __future__ import annotations

import socket
from collections.abc import Collection, Iterator
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from urllib.parse import SplitResult

from orchestrator.errors import DefinitionError

Address = IPv4Address | IPv6Address

_NAT64 = ip_network("64:ff9b::/96")  # (RFC 6052)
_LOW_32 = 0xFFFFFFFF


def _networks(texts: str) -> tuple[IPv4Network | IPv6Network, ...]:
    return tuple(map(ip_network, texts.split()))


# Not global by IANA's registries, whatever the version of Python knows of them.
_NOT_PUBLIC = _networks(
    "0.0.0.0/8 100.64.0.0/10 192.0.0.0/24 192.88.99.0/24 198.18.0.0/15 "
    "64:ff9b:1::/48 100::/64 2001::/23 2002::/16 3fff::/20 5f00::/16 fec0::/10"
)
# Clouds' metadata services hand out credentials; nobody means one of them with an API's name.
_NEVER = _networks(
    "0.0.0.0/8 169.254.0.0/16 224.0.0.0/4 255.255.255.255/32 "
    "100.100.100.200/32 168.63.129.16/32 192.0.0.192/32 "
    "::/128 fe80::/10 ff00::/8 fd00:ec2::254/128 fd20:ce::254/128"
)


class RefusedAddress(Exception):
    """A host's name leads to an address that actions may not connect to."""


class Hosts:
    """Where actions may connect to: the public internet, and the `private` hosts that are named.

    Every HTTP connection of an action asks here, whichever client makes it.
    """

    def __init__(self, private: Collection[str] = ()) -> None:
        self._private = frozenset(one.lower().strip("[]") for one in private)

    def resolve(self, host: str, port: int) -> list[str]:
        """The checked addresses of a host; raises as `addresses_of` does."""
        try:
            return addresses_of(host, port, private=host.lower() in self._private)
        except RefusedAddress:
            raise RefusedAddress(
                f"{host!r} has an address that is not of the public internet. If this is meant, "
                f"name the host in allowPrivate: [{host}]"
            ) from None

    def check_credentials(self, url: SplitResult, what: str) -> None:
        """Refuses an `http` url of a public host, where everyone could read the credentials."""
        if url.scheme == "http" and url.hostname not in self._private:
            raise DefinitionError(
                f"{what} would send credentials that everyone on the way can read; use https"
            )


def port_of(url: SplitResult) -> int:
    """The port of an address."""
    return url.port or (443 if url.scheme == "https" else 80)


def addresses_of(host: str, port: int, *, private: bool = False) -> list[str]:
    """The addresses of `host`, a name or an address, each of which may be connected to.

    With `private`, private and loopback addresses are allowed; link-local ones, multicast and the
    metadata services of clouds never are.

    Raises:
        RefusedAddress: One of the host's addresses is not allowed.
        OSError: The name is unknown.
    """
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except UnicodeError as error:
        raise OSError("the host's name is not possible") from error
    # One forbidden address refuses the host: a resolver may give any of them first.
    texts = list(dict.fromkeys(str(entry[4][0]).partition("%")[0] for entry in found))
    for text in texts:
        address = ip_address(text)
        forbidden = any(map(_is_metadata, _iter_forms(address)))
        if forbidden or not (private or is_public(address)):
            raise RefusedAddress(text)
    return texts


def is_public(address: Address) -> bool:
    """Whether an address, and each that is inside it, is one of the public internet."""
    return all(
        one.is_global
        and not (one.is_multicast or one.is_reserved)
        and not any(one in network for network in _NOT_PUBLIC if network.version == one.version)
        and not _is_metadata(one)
        for one in _iter_forms(address)
    )


def _is_metadata(address: Address) -> bool:
    return any(address in network for network in _NEVER if network.version == address.version)


# An address means itself, and the IPv4 addresses inside it: a check of the outer one alone would
# let `::ffff:169.254.169.254` through.
def _iter_forms(address: Address) -> Iterator[Address]:
    if isinstance(address, IPv4Address):
        yield address
        return
    if address.ipv4_mapped is not None:
        yield address.ipv4_mapped
        return
    low = IPv4Address(int(address) & _LOW_32)
    if address in _NAT64:
        yield low
        return
    yield address
    if address.sixtofour is not None:
        yield address.sixtofour
    if address.teredo is not None:
        yield from address.teredo
    # IPv4-compatible (::a.b.c.d), IPv4-translated (::ffff:0:a.b.c.d), NAT64's local prefix, ISATAP.
    high, identifier = int(address) >> 32, (int(address) >> 32) & _LOW_32
    local_nat64 = int(address) >> 80 == 0x64FF9B0001
    if (high in (0, 0xFFFF0000) and int(low) > 1) or local_nat64 or identifier in _ISATAP:
        yield low


_ISATAP = (0x00005EFE, 0x02005EFE)  # (RFC 5214)
