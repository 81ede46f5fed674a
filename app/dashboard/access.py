"""Host checks and security headers for all pages.

There is no sign-in, so the network address is the only protection. A request's Host header must name this machine; otherwise
another site's page could read everything through DNS rebinding. IP addresses cannot be rebound. Names without dots can be
rebound by anyone who answers name queries in the local network (mDNS, LLMNR, DHCP, search domains).
"""

from __future__ import annotations

import ipaddress
from collections.abc import Collection

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from agent.models.values import is_loopback
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


class HostGuard:
    """Rejects requests whose Host is neither an IP address nor one of `names`, and adds security headers."""

    def __init__(self, app: ASGIApp, host: str, names: Collection[str] = ()) -> None:
        """`host` is the listening address."""
        self._app = app
        self._names = frozenset(name.lower() for name in ("localhost", host, *names))
        self._beyond = not is_loopback(host)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        named = Headers(scope=scope).get("host", "")
        if not self._is_ours(named):
            text = f"Host {named[:200]!r} is not allowed. Use http://localhost with this port, or set {PREFIX}PAGES_NAMES.\n"
            await PlainTextResponse(text, 421)(scope, receive, guarded)
            return
        await self._app(scope, receive, guarded)

    def _is_ours(self, named: str) -> bool:
        named = named.strip().lower()
        host = named[1:].partition("]")[0] if named.startswith("[") else named.partition(":")[0]  # without the port
        if host in self._names:
            return True
        address = _address(host)
        return address is not None and (self._beyond or address.is_loopback)


def _address(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
