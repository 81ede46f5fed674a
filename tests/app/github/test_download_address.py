"""Where a download of a log may lead to, and that it is fetched from the address that was checked."""

from __future__ import annotations

import asyncio
import socket
from typing import Any

import httpx
import pytest

from app.github.download_address import pinned
from app.github.errors import Forbidden, Unavailable

API = "https://api.github.com"
TIMEOUT = httpx.Timeout(5.0)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[str]]:
    """What each name resolves to, one answer after another; the last one stays."""
    known: dict[str, list[str]] = {"api.github.com": ["140.82.121.6"], "logs.example.com": ["20.60.1.1"]}

    async def resolve(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        if host not in known:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answer = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
    return known


async def test_a_public_host_is_asked_at_the_address_that_was_checked(names: dict[str, list[str]]) -> None:
    names["logs.example.com"] = ["20.60.1.1", "127.0.0.1"]  # the second answer is never asked for
    request = await pinned("https://logs.example.com/a?sig=1", API, (), TIMEOUT)
    assert (request.url.host, request.headers["host"]) == ("20.60.1.1", "logs.example.com")
    assert request.extensions["sni_hostname"] == "logs.example.com"
    assert request.url.raw_path == b"/a?sig=1"
    assert "authorization" not in request.headers


@pytest.mark.parametrize(
    "address",
    ["127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.5.5", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "::1",
     "fe80::1", "fc00::1", "::ffff:10.0.0.1", "64:ff9b::a00:1", "2002:a00:1::", "240.0.0.1", "255.255.255.255"],
)  # fmt: skip
async def test_a_name_that_leads_into_the_private_network_is_refused(names: dict[str, list[str]], address: str) -> None:
    names["logs.example.com"] = [address]
    with pytest.raises(Forbidden, match=r"logs\.example\.com.*SELFHEAL_GITHUB_DOWNLOAD_HOSTS"):
        await pinned("https://logs.example.com/a", API, (), TIMEOUT)
    assert await pinned("https://logs.example.com/a", API, ("logs.example.com",), TIMEOUT)


@pytest.mark.parametrize("target", ["http://logs.example.com/a", "ftp://logs.example.com/a", "file:///etc/passwd"])
async def test_nothing_leads_away_from_https(names: dict[str, list[str]], target: str) -> None:
    with pytest.raises(Forbidden, match="from https to"):
        await pinned(target, API, (), TIMEOUT)


async def test_a_private_enterprise_server_may_redirect_to_itself_and_to_no_neighbour(names: dict[str, list[str]]) -> None:
    api = "https://ghe.corp/api/v3"
    names |= {"ghe.corp": ["10.0.0.5"], "same.corp": ["10.0.0.5"], "other.corp": ["10.0.0.6"]}
    assert (await pinned("https://ghe.corp/storage/a", api, (), TIMEOUT)).url.host == "ghe.corp"
    assert (await pinned("https://same.corp/a", api, (), TIMEOUT)).url.host == "10.0.0.5"
    with pytest.raises(Forbidden):
        await pinned("https://other.corp/a", api, (), TIMEOUT)


@pytest.mark.parametrize("host", ["127.0.0.1", "2130706433", "0177.0.0.1", "0x7f.1", "[::1]", "169.254.169.254"])
async def test_behind_a_proxy_an_address_is_still_refused(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.corp:3128")
    with pytest.raises((Forbidden, Unavailable)):
        await pinned(f"https://{host}/a", API, (), TIMEOUT)


async def test_a_name_that_nobody_knows_is_told(names: dict[str, list[str]]) -> None:
    with pytest.raises(Unavailable, match=r"nowhere\.example"):
        await pinned("https://nowhere.example/a", API, (), TIMEOUT)
