"""Decides whether a download that GitHub redirects to may be fetched, and connects to the addresses that were checked.

A repository cannot choose the target, but a server that was taken over can. So the target must not lead from https to http, nor
into the private network: there, a request alone can do harm. GitHub's own addresses are always allowed, as most Enterprise
servers are private; so are the operator's `hosts`: names, addresses and networks.
"""

from __future__ import annotations

import asyncio
import socket
import urllib.request
from collections.abc import Collection, Mapping
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from types import MappingProxyType
from typing import Any

import httpx

from app.github.errors import Unavailable, Unreachable, UnsafeDownload

Address = IPv4Address | IPv6Address
_PUBLIC_V6, _NAT64 = IPv6Network("2000::/3"), IPv6Network("64:ff9b::/96")
_OURS = (
    "host", "connection", "user-agent", "accept-encoding", "content-length", "transfer-encoding", "upgrade", "expect",
    "proxy-authorization",
)  # fmt: skip
_RELAYS = (IPv4Network("192.0.0.0/24"), IPv4Network("192.88.99.0/24"))  # public for `ipaddress`, but of the local network


async def requests_for(
    target: str, api_url: str, hosts: Collection[str], timeout: httpx.Timeout, header: Mapping[str, str] = MappingProxyType({})
) -> tuple[httpx.Request, ...]:
    """Requests for `target`, one for each checked address, to be tried in turn. Raises `UnsafeDownload`, `Unavailable`.

    A request for GitHub's host or one of `hosts`, or through a proxy, names the host. A proxy resolves the name itself: what it
    reaches is its decision, but nothing that this machine's resolver finds in a private network is asked of it.
    """
    try:
        url, own = httpx.URL(target), httpx.URL(api_url)
    except httpx.InvalidURL as error:
        raise Unavailable("GitHub redirected a download to an invalid address") from error
    if url.scheme != "https" and (url.scheme != "http" or own.scheme == "https"):
        raise UnsafeDownload(f"GitHub redirected a download from https to {url.scheme[:20]}, which is not followed")
    if url.userinfo:
        raise UnsafeDownload("GitHub redirected a download to an address with a password, which is not followed")
    headers = _foreign(header) | {"User-Agent": "selfheal", "Accept-Encoding": "identity"}
    extensions: dict[str, Any] = {"timeout": timeout.as_dict()}
    by_name = (httpx.Request("GET", url, headers=headers, extensions=extensions),)
    if url.raw_host == own.raw_host or url.host in hosts:
        return by_name
    is_proxied = has_proxy(url)
    found = await _addresses(url, timeout, optional=is_proxied)
    allowed = [address for address in found if is_public(address) or _is_listed(address, hosts)]
    if not allowed:
        of_github = await _addresses(own, timeout, optional=True)
        allowed = [address for address in found if address in of_github]
    if found and not allowed:
        raise UnsafeDownload(
            f"GitHub redirects a download to {url.host[:100]} ({found[0]}), which is in a private network; if your server "
            "keeps its logs there, add that host to SELFHEAL_GITHUB_DOWNLOAD_HOSTS"
        )
    if is_proxied:
        return by_name
    # The name is not resolved a second time: it could then lead elsewhere. A connection is used once, because it was verified
    # for this name only.
    headers |= {"Host": url.netloc.decode("ascii"), "Connection": "close"}
    extensions["sni_hostname"] = url.raw_host.decode("ascii")
    return tuple(
        httpx.Request("GET", url.copy_with(host=str(address)), headers=headers, extensions=extensions) for address in allowed
    )


def _foreign(header: Mapping[str, str]) -> dict[str, str]:
    """The headers that a server names, without those that decide where and how a request goes."""
    return {name: value for name, value in header.items() if name.lower() not in _OURS and f"{name}{value}".isascii()}


def is_public(address: Address) -> bool:
    """Whether the address is an ordinary one of the Internet; one that embeds another counts as that other."""
    if isinstance(address, IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour
        if inner is None and address in _NAT64:
            inner = IPv4Address(int(address) & 0xFFFFFFFF)
        return is_public(inner) if inner is not None else address in _PUBLIC_V6 and address.is_global
    return address.is_global and not address.is_multicast and not any(address in network for network in _RELAYS)


def _is_listed(address: Address, hosts: Collection[str]) -> bool:
    for each in hosts:
        try:
            if address in ip_network(each, strict=False):
                return True
        except ValueError:  # a name
            continue
    return False


async def _addresses(url: httpx.URL, timeout: httpx.Timeout, *, optional: bool) -> tuple[Address, ...]:
    """The host's addresses in the resolver's order, which puts those without a route last.

    Raises `Unavailable` if there are none, unless they are `optional`; also then if the resolver does not say so in time.
    """
    host = url.raw_host.decode("ascii").strip("[]")
    try:
        async with asyncio.timeout(timeout.read):
            found = await asyncio.get_running_loop().getaddrinfo(host, url.port or 443, type=socket.SOCK_STREAM)
    except TimeoutError as error:
        raise Unreachable(f"the host {host[:100]} cannot be resolved: no answer in {timeout.read:g} s") from error
    except (OSError, UnicodeError) as error:  # also a name with empty or long labels
        if optional:
            return ()
        why = getattr(error, "strerror", None) or type(error).__name__
        raise Unavailable(f"the host {host[:100]} cannot be resolved: {why}") from error
    return tuple(dict.fromkeys(ip_address(str(address[0]).partition("%")[0]) for *_, address in found))


def has_proxy(url: httpx.URL) -> bool:
    """Whether the environment names a proxy for this URL."""
    proxies = urllib.request.getproxies()
    return bool(proxies.get(url.scheme) or proxies.get("all")) and not urllib.request.proxy_bypass(url.host)
