"""Where a download of a log may lead to, and that it is fetched from the address that was checked."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID

from app.attempt.story import _ending_for
from app.github.channel import SharedTransport
from app.github.client import GitHub
from app.github.download_address import requests_for
from app.github.errors import Unavailable, Unreachable, UnsafeDownload
from app.github.repository import Repository
from app.github.retries import RetryPolicy
from app.github.types import READING
from app.settings import SettingsError, load
from tests.standins.github import GitHub as StandIn
from tests.standins.github.auth import private_pem
from tests.standins.sockets import silent
from webhooks.intake import RepositoryRef

API = "https://api.github.com"
TIMEOUT = httpx.Timeout(5.0)
QUICK = RetryPolicy(tries=3, first_delay=0.01, longest_delay=0.02, timeout=5, download=5, write_interval=0)
PRIVATE = [
    "127.0.0.1", "10.1.2.3", "192.168.0.1", "172.16.5.5", "169.254.169.254", "100.64.0.1", "0.0.0.0", "224.0.0.1", "240.0.0.1",
    "255.255.255.255", "192.0.0.8", "192.88.99.1", "198.18.0.1", "::", "::1", "::127.0.0.1", "fe80::1", "fc00::1", "fec0::1",
    "ff0e::1", "::ffff:10.0.0.1", "::ffff:0:10.0.0.1", "64:ff9b::a00:1", "64:ff9b:1::a00:1", "2002:a00:1::", "2001::1",
    "2001:db8::1",
]  # fmt: skip


@pytest.fixture(autouse=True)
def no_proxy_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "https_proxy", "all_proxy", "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[list[str]]]:
    """What each name resolves to, one answer after another; the last one stays. Other names are resolved as usual."""
    known = {"api.github.com": [["140.82.121.6"]], "logs.example.com": [["20.60.1.1"]], "nowhere.example": [[]]}
    really = asyncio.BaseEventLoop.getaddrinfo

    async def resolve(self: Any, host: str, port: int, **more: Any) -> list[Any]:
        if host not in known:
            return await really(self, host, port, **more)
        answers = known[host].pop(0) if len(known[host]) > 1 else known[host][0]
        if not answers:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, port)) for answer in answers]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", resolve)
    return known


Names = dict[str, list[list[str]]]


async def hosts_asked(target: str, api: str = API, hosts: tuple[str, ...] = ()) -> list[str]:
    return [request.url.host for request in await requests_for(target, api, hosts, TIMEOUT)]


async def test_a_public_host_is_asked_at_the_addresses_that_were_checked(names: Names) -> None:
    names["logs.example.com"] = [["20.60.1.1", "2606:4700::1"], ["127.0.0.1"]]  # the second answer is never asked for
    first, second = await requests_for("https://logs.example.com/a?sig=1", API, (), TIMEOUT)
    assert (first.url.host, first.headers["host"]) == ("20.60.1.1", "logs.example.com")
    assert second.url.host == "2606:4700::1"
    for request in (first, second):
        assert request.extensions["sni_hostname"] == "logs.example.com"
        assert request.url.raw_path == b"/a?sig=1"
        assert "authorization" not in request.headers


async def test_headers_that_a_server_names_decide_nothing_about_the_way(names: Names) -> None:
    named = {"Authorization": "RemoteAuth x", "HOST": "inner", "Connection": "upgrade", "Content-Length": "9", "X-\u00e9": "y"}
    (request,) = await requests_for("https://logs.example.com/a", API, (), TIMEOUT, named)
    assert (request.headers["authorization"], request.headers["host"]) == ("RemoteAuth x", "logs.example.com")
    assert request.headers.get_list("connection") == ["close"]
    assert "content-length" not in request.headers


@pytest.mark.parametrize("address", PRIVATE)
async def test_a_name_that_leads_into_the_private_network_is_refused(names: Names, address: str) -> None:
    names["logs.example.com"] = [[address]]
    with pytest.raises(UnsafeDownload, match=r"logs\.example\.com \(.*SELFHEAL_GITHUB_DOWNLOAD_HOSTS"):
        await hosts_asked("https://logs.example.com/a")
    assert await hosts_asked("https://logs.example.com/a", hosts=("logs.example.com",)) == ["logs.example.com"]
    assert await hosts_asked(
        "https://logs.example.com/a", hosts=(f"{address}/32" if "." in address and ":" not in address else address,)
    )


@pytest.mark.parametrize(
    "host", ["2130706433", "0177.0.0.1", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "[::1]", "①②⑦.0.0.1", "localhost"]
)
@pytest.mark.parametrize("proxy", ["", "http://proxy.corp:3128"])
async def test_no_spelling_of_a_private_address_is_followed(
    names: Names, host: str, proxy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("https_proxy", proxy)
    with pytest.raises((UnsafeDownload, Unavailable)):
        await hosts_asked(f"https://{host}/a")


@pytest.mark.parametrize(
    "target",
    ["http://logs.example.com/a", "ftp://logs.example.com/a", "file:///etc/passwd", "https://ann:secret@logs.example.com/a"],
)
async def test_nothing_leads_away_from_https_or_brings_a_password(names: Names, target: str) -> None:
    with pytest.raises(UnsafeDownload, match="not followed") as refusal:
        await hosts_asked(target)
    assert "secret" not in str(refusal.value)


async def test_a_private_enterprise_server_may_redirect_to_itself_and_to_no_neighbour(names: Names) -> None:
    api = "https://ghe.corp/api/v3"
    names |= {"ghe.corp": [["10.0.0.5"]], "same.corp": [["10.0.0.5", "10.0.0.6"]], "other.corp": [["10.0.0.6"]]}
    assert await hosts_asked("https://ghe.corp/storage/a", api) == ["ghe.corp"]
    assert await hosts_asked("https://same.corp/a", api) == ["10.0.0.5"]
    with pytest.raises(UnsafeDownload):
        await hosts_asked("https://other.corp/a", api)
    listed = load(github_download_hosts="Storage.corp, 10.0.0.0/28").github_download_hosts
    assert await hosts_asked("https://other.corp/a", api, listed) == ["10.0.0.6"]
    assert await hosts_asked("https://STORAGE.corp/a", api, listed) == ["storage.corp"]


@pytest.mark.parametrize("value", ["https://logs.corp", "logs.corp/path", "logs.corp:443", "10.0.0.0/40"])
def test_what_is_no_host_is_not_a_download_host(value: str) -> None:
    with pytest.raises(SettingsError, match="SELFHEAL_GITHUB_DOWNLOAD_HOSTS must be host names"):
        load(github_download_hosts=value)


async def test_a_proxy_resolves_names_that_this_machine_cannot(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("https_proxy", "http://proxy.corp:3128")
    assert await hosts_asked("https://nowhere.example/a") == ["nowhere.example"]
    assert await hosts_asked("https://logs.example.com/a") == ["logs.example.com"]
    names["logs.example.com"] = [["10.0.0.6"]]
    with pytest.raises(UnsafeDownload):
        await hosts_asked("https://logs.example.com/a")


async def test_a_slow_resolver_has_the_time_of_an_answer_and_opens_no_way_into_a_private_network(
    names: Names, monkeypatch: pytest.MonkeyPatch
) -> None:
    """glibc asks the second name server after 5 s, which is all the time that a connection has."""
    quick = asyncio.BaseEventLoop.getaddrinfo

    async def slow(self: Any, host: str, port: int, **more: Any) -> list[Any]:
        await asyncio.sleep(0.1)
        return await quick(self, host, port, **more)

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", slow)
    target = "https://logs.example.com/a"
    (found,) = await requests_for(target, API, (), httpx.Timeout(10.0, connect=0.01))
    assert found.url.host == "20.60.1.1"
    names["logs.example.com"] = [["10.0.0.6"]]
    monkeypatch.setenv("https_proxy", "http://proxy.corp:3128")
    with pytest.raises(Unreachable, match=r"cannot be resolved: no answer in 0\.01 s"):
        await requests_for(target, API, (), httpx.Timeout(0.01))
    listed = await requests_for(target, API, ("logs.example.com",), httpx.Timeout(0.01))
    assert [request.url.host for request in listed] == ["logs.example.com"]


class Server:
    """A server on this machine that answers every request with `answer`, and keeps what it was asked."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.asked = answer, list[bytes]()

    async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while head := await reader.read(65_536):
            self.asked.append(head)
            writer.write(self.answer)
        writer.close()


@asynccontextmanager
async def serving(server: Server, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> AsyncIterator[int]:
    listener = await asyncio.start_server(server, host, 0, ssl=tls)
    async with listener:
        yield int(listener.sockets[0].getsockname()[1])


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nlog"


async def test_an_address_without_an_answer_is_no_reason_not_to_ask_the_next_one(names: Names) -> None:
    """As that of IPv6 on a machine without it."""
    async with serving(server := Server(OK), "127.0.0.3") as port:
        names["logs.example.com"] = [["127.0.0.2", "127.0.0.3"]]
        wire = SharedTransport("http://127.0.0.1", QUICK, ("127.0.0.2/31",))
        response = await wire.fetch(f"http://logs.example.com:{port}/a")
        assert await response.aread() == b"log"
        await response.aclose()
        await wire.close()
    assert f"Host: logs.example.com:{port}".encode() in server.asked[0]


async def test_a_direct_download_does_not_take_a_proxy_for_its_address(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """NO_PROXY names the host, and the request names its address."""
    async with serving(Server(OK), "127.0.0.2") as port, serving(proxy := Server(OK)) as of_proxy:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{of_proxy}")
        monkeypatch.setenv("no_proxy", "logs.example.com")
        names["logs.example.com"] = [["127.0.0.2"]]
        wire = SharedTransport("http://127.0.0.1", QUICK, ("127.0.0.2",))
        response = await wire.fetch(f"http://logs.example.com:{port}/a")
        await response.aclose()
        await wire.close()
    assert proxy.asked == []


def certificate(folder: Path, name: str) -> tuple[Path, ssl.SSLContext]:
    """A certificate for `name` that vouches for itself, in a file, and what a server with it needs."""
    key = ec.generate_private_key(ec.SECP256R1())
    who, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]), datetime.now(UTC)
    builder = x509.CertificateBuilder(who, who, key.public_key(), x509.random_serial_number(), now, now + timedelta(1))
    signed = builder.add_extension(x509.SubjectAlternativeName([x509.DNSName(name)]), False).sign(key, hashes.SHA256())
    file = folder / "own.pem"
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    file.write_bytes(signed.public_bytes(Encoding.PEM) + private)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(file)
    return file, context


@pytest.mark.parametrize("certified", ["logs.example.com", "127.0.0.2", "other.example.com"])
async def test_the_certificate_is_that_of_the_name_and_not_of_the_address(
    names: Names, certified: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, context = certificate(tmp_path, certified)
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    names["logs.example.com"] = [["127.0.0.2"]]
    wire = SharedTransport(API, QUICK, ("127.0.0.2",))
    async with serving(server := Server(OK), "127.0.0.2", context) as port:
        if certified == "logs.example.com":
            response = await wire.fetch(f"https://logs.example.com:{port}/a")
            assert await response.aread() == b"log"
            await response.aclose()
            names["other.example.com"] = [["127.0.0.2"]]  # no connection is taken over from another name
            with pytest.raises(httpx.ConnectError):
                await wire.fetch(f"https://other.example.com:{port}/a")
        else:
            with pytest.raises(httpx.ConnectError):
                await wire.fetch(f"https://logs.example.com:{port}/a")
            assert server.asked == []
    await wire.close()


@pytest.fixture
async def standin() -> AsyncIterator[StandIn]:
    async with StandIn() as standin:
        await standin.create_repository("acme/sample", {"a.py": "x = 1\n"})
        yield standin


@pytest.fixture
async def reader(standin: StandIn) -> AsyncIterator[Repository]:
    async with GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=QUICK) as github:
        ref = RepositoryRef(standin.repository("acme/sample").id, "acme/sample")
        yield github.repository(standin.installation("acme").id, ref, READING)


@pytest.mark.parametrize("host", ["127.0.0.2", "2130706434", "rebinding.example"])
async def test_a_neighbour_of_github_hears_nothing(names: Names, host: str, standin: StandIn, reader: Repository) -> None:
    names["rebinding.example"] = [["127.0.0.2"]]
    async with serving(trap := Server(OK), "127.0.0.2") as port:
        standin.world.downloads_url = f"http://{host}:{port}"
        with pytest.raises(UnsafeDownload) as refusal:
            [chunk async for chunk in reader.archive("main")]
    assert trap.asked == []
    ending = _ending_for(refusal.value, None)  # type: ignore[arg-type]
    assert "SELFHEAL_GITHUB_DOWNLOAD_HOSTS" in ending.reason


async def test_the_second_answer_of_a_name_server_is_not_connected_to(
    names: Names, standin: StandIn, reader: Repository
) -> None:
    port = standin.world.downloads_url.rpartition(":")[2]
    names["rebinding.example"] = [["127.0.0.1"], ["127.0.0.2"]]
    async with serving(trap := Server(OK), "127.0.0.2"):
        standin.world.downloads_url = f"http://rebinding.example:{port}"
        assert b"".join([chunk async for chunk in reader.archive("main")])
    assert trap.asked == []


async def test_a_redirect_of_a_download_is_not_followed(standin: StandIn, reader: Repository) -> None:
    async with serving(trap := Server(OK)) as port:
        moved = Server(f"HTTP/1.1 302 Found\r\nLocation: http://127.0.0.1:{port}/\r\nContent-Length: 0\r\n\r\n".encode())
        async with serving(moved) as other:
            standin.world.downloads_url = f"http://127.0.0.1:{other}"
            with pytest.raises(Unavailable):
                [chunk async for chunk in reader.archive("main")]
    assert (trap.asked, len(moved.asked)) == ([], QUICK.tries)


async def test_a_download_of_the_servers_own_host_gets_no_token(names: Names) -> None:
    """As of an Enterprise server without subdomains: https://HOST/api/v3 redirects to https://HOST/_codeload."""
    token = b'{"token": "ghs_0123456789012345678901234567890123456789", "expires_at": "2999-01-01T00:00:00Z"}'

    class Enterprise(Server):
        async def __call__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while head := await reader.read(65_536):
                self.asked.append(head)
                path, answer = head.split()[1], OK
                if path.endswith(b"/access_tokens"):
                    answer = b"HTTP/1.1 201 Created\r\nContent-Length: %d\r\n\r\n%s" % (len(token), token)
                elif path.startswith(b"/api/v3"):
                    answer = b"HTTP/1.1 302 Found\r\nLocation: /_codeload/a\r\nContent-Length: 0\r\n\r\n"
                writer.write(answer)
            writer.close()

    async with (
        serving(server := Enterprise(OK)) as port,
        GitHub(1, private_pem(), api_url=f"http://127.0.0.1:{port}/api/v3", retry_policy=QUICK) as github,
    ):
        repository = github.repository(1, RepositoryRef(1, "acme/sample"), READING)
        assert b"".join([chunk async for chunk in repository.archive("main")]) == b"log"
    assert b"uthorization" in server.asked[-2]
    assert server.asked[-1].startswith(b"GET /_codeload/a")
    assert b"uthorization" not in server.asked[-1]


async def test_a_name_that_nobody_knows_is_asked_for_again_and_told(names: Names, standin: StandIn, reader: Repository) -> None:
    standin.world.downloads_url = "http://nowhere.example"
    with pytest.raises(Unavailable, match=r"nowhere\.example"):
        [chunk async for chunk in reader.archive("main")]
    names["nowhere.example"] = [[], ["127.0.0.1"]]
    async with serving(Server(OK)) as port:
        standin.world.downloads_url = f"http://nowhere.example:{port}"
        assert b"".join([chunk async for chunk in reader.archive("main")]) == b"log"


async def test_a_host_that_drops_packets_costs_one_short_wait(standin: StandIn) -> None:
    """Each log of a run is on the same host: the first one tells."""
    hasty = replace(QUICK, connect=0.2)
    with silent() as listener:
        host, port = listener.getsockname()
        standin.world.downloads_url = f"http://{host}:{port}"
        async with GitHub(standin.app_id, standin.private_key, api_url=standin.url, retry_policy=hasty) as github:
            ref = RepositoryRef(standin.repository("acme/sample").id, "acme/sample")
            reader = github.repository(standin.installation("acme").id, ref, READING)
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1"):
                [chunk async for chunk in reader.archive("main")]
            listener.setblocking(False)
            listener.accept()  # from now on, another connection would be answered
            with pytest.raises(Unreachable, match=r"127\.0\.0\.1") as again:
                [chunk async for chunk in reader.archive("main")]
            with pytest.raises(BlockingIOError):
                listener.accept()
    assert again.value.download_host == "127.0.0.1"
    assert sum("/tarball/" in request for request in standin.requests) == 2, "neither was tried again"
