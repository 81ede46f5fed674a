"""Who may ask for pages, and what a browser may do with them.

Without sign-in the address is the only wall, so a request has to name this machine as its host: else a page from elsewhere
whose name is made to lead here could read everything (DNS rebinding). An IP address cannot be rebound; a name without dots
can, by whoever answers for names in the network around us (mDNS, LLMNR, DHCP, search domains).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, MutableMapping
from typing import Any

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from app.settings import PREFIX

HEADERS = {
    "content-security-policy": "; ".join(
        (
            "default-src 'none'",
            "script-src 'self'",
            "style-src 'self'",
            "img-src 'self'",
            "connect-src 'self'",
            "form-action 'self'",  # the filters are a form
            "base-uri 'none'",
            "frame-ancestors 'none'",
        )
    ),
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "no-referrer",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
    "permissions-policy": "camera=(), geolocation=(), microphone=()",
}


def is_loopback(host: str) -> bool:
    """Whether an address to listen on is reached from this machine alone."""
    if host.lower() == "localhost":
        return True
    address = _address(host)
    return address is not None and address.is_loopback


class Guard:
    """Answers only to addresses and to this machine's `names`, and says to browsers what pages may not do."""

    def __init__(self, app: ASGIApp, host: str, names: Collection[str] = ()) -> None:
        """`host` is the address that is listened on."""
        self._app = app
        self._names = frozenset(name.lower() for name in ("localhost", host, *names))
        self._beyond = not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                _add_headers(message)
            await send(message)

        named = Headers(scope=scope).get("host", "")
        if not self._is_ours(named):
            said = (
                f"These pages answer to this machine's names, not to {named[:200]!r}; open http://localhost on their port, "
                f"or set {PREFIX}PAGES_NAMES.\n"
            )
            await PlainTextResponse(said, 421)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _is_ours(self, named: str) -> bool:
        host = _without_port(named.strip().lower())
        if host in self._names:
            return True
        address = _address(host)
        return address is not None and (self._beyond or address.is_loopback)


def _add_headers(message: MutableMapping[str, Any]) -> None:
    headers = MutableHeaders(scope=message)
    for name, value in HEADERS.items():
        headers.setdefault(name, value)
    headers.setdefault("cache-control", "no-store")


def _without_port(named: str) -> str:
    if named.startswith("["):
        return named[1:].partition("]")[0]
    return named.partition(":")[0]


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
