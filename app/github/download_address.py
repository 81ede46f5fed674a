"""Decides whether a download that GitHub redirects to may be fetched, and connects to the address that was checked.

A repository cannot choose the target, but a server that was taken over can. So the target must not lead from https to http, nor
into the private network: there, a request alone can do harm. GitHub's own host is always allowed, as most Enterprise servers
are private; so are the operator's `hosts`.
"""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import urllib.request
from collections.abc import Collection
from typing import Any

import httpx

from app.github.errors import Forbidden, Unavailable

Address = ipaddress.IPv4Address | ipaddress.IPv6Address


async def pinned(target: str, api_url: str, hosts: Collection[str], timeout: httpx.Timeout) -> httpx.Request:
    """A request for `target` that connects to a checked address. Raises `Forbidden` if it is refused, `Unavailable`."""
    try:
        url, own = httpx.URL(target), httpx.URL(api_url)
    except httpx.InvalidURL as error:
        raise Unavailable("GitHub redirected a download to an invalid address") from error
    if url.scheme != "https" and (url.scheme != "http" or own.scheme == "https"):
        raise Forbidden(f"GitHub redirected a download from https to {url.scheme[:20]}, which is not followed")
    headers = {"User-Agent": "selfheal", "Accept-Encoding": "identity"}
    extensions: dict[str, Any] = {"timeout": timeout.as_dict()}
    is_known = url.host == own.host or url.host in hosts
    if is_known or _has_proxy(url):  # a proxy resolves the name itself, and decides what it reaches
        if not is_known and (literal := _literal(url.host)) and _is_private(literal):
            raise _refused(url.host)
        return httpx.Request("GET", url, headers=headers, extensions=extensions)
    found = await _addresses(url)
    if any(_is_private(each) for each in found) and not set(found) <= set(await _addresses(own)):
        raise _refused(url.host)
    headers["Host"] = url.netloc.decode("ascii")
    extensions["sni_hostname"] = url.host
    # The name is not resolved a second time: it could then lead elsewhere.
    address = str(found[0]) if found[0].version == 4 else f"[{found[0]}]"
    return httpx.Request("GET", url.copy_with(host=address), headers=headers, extensions=extensions)


def _refused(host: str) -> Forbidden:
    return Forbidden(
        f"GitHub redirected a download to {host[:100]}, which is in a private network; if that is where your server keeps its "
        "logs, add this host to SELFHEAL_GITHUB_DOWNLOAD_HOSTS"
    )


async def _addresses(url: httpx.URL) -> list[Address]:
    try:
        found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port or 443, type=socket.SOCK_STREAM)
    except OSError as error:
        raise Unavailable(f"the host {url.host[:100]} cannot be resolved: {error.strerror}") from error
    addresses = [ipaddress.ip_address(str(address[0]).partition("%")[0]) for *_, address in found]
    return sorted(addresses, key=lambda address: address.version)  # many machines have no way to IPv6 addresses


def _literal(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(socket.inet_ntoa(socket.inet_aton(host)))  # also decimal, octal and short forms
    except OSError:
        pass
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None


def _is_private(address: Address) -> bool:
    if isinstance(address, ipaddress.IPv6Address):
        inner = address.ipv4_mapped or address.sixtofour or (address.teredo or (None, None))[1]
        if inner is None and address in _NAT64:
            inner = ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)
        if inner is not None:
            return _is_private(inner)
    return not address.is_global or address.is_multicast


_NAT64 = ipaddress.ip_network("64:ff9b::/96")


def _has_proxy(url: httpx.URL) -> bool:
    proxies = urllib.request.getproxies()
    return bool(proxies.get(url.scheme) or proxies.get("all")) and not urllib.request.proxy_bypass(url.host)
