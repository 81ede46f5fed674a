"""Sends requests to GitHub with one identity; the only module that knows githubkit.

githubkit signs as the App, recognises rate limits and speaks HTTP. Its retries (it would send a POST answered with 502 four
times), HTTP cache (it keeps whole archives) and strict models are not used. Its exceptions are translated into ours here.

A read that was made before asks whether its answer has changed; if not, it does not count against GitHub's rate limit.
https://docs.github.com/rest/using-the-rest-api/best-practices-for-using-the-rest-api#use-conditional-requests-if-appropriate

A token is limited to its channel's repository and permissions, kept in memory until shortly before it expires, renewed once
when GitHub answers 401, and never printed.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Awaitable, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from time import monotonic
from typing import Any
from urllib.parse import urljoin

import httpx
from githubkit import AppAuthStrategy, TokenAuthStrategy
from githubkit import GitHub as Kit
from githubkit.auth import BaseAuthStrategy
from githubkit.cache import MemCacheStrategy
from githubkit.core import GitHubCore
from githubkit.exception import GitHubException, RateLimitExceeded, RequestError, RequestFailed, RequestTimeout

from app.github.download_address import requests_for
from app.github.errors import (
    BadCredentials,
    Conflict,
    Forbidden,
    GitHubError,
    Gone,
    Invalid,
    NotFound,
    RateLimited,
    Unavailable,
    Unreachable,
    UnsafeDownload,
)
from app.github.retries import RetryPolicy, WritePacer
from app.github.types import Link
from app.redaction import hide_token

RENEW_BEFORE = timedelta(minutes=5)
API_VERSION = "2022-11-28"
_PAGE = 100
_MAX_PAGES = 1_000
_MAX_REDIRECTS = 5
_TOO_QUICKLY = 180.0  # seconds
_AWAY = 60.0  # seconds for which a host that could not be connected to is not tried again: all logs of a run are on one
_KEPT_BYTES = 8 * 1024 * 1024  # of the answers that a channel keeps to ask whether they have changed
_ANSWER_BYTES = 4096  # of an answer's headers and of the objects around it, roughly


@dataclass(frozen=True, slots=True)
class Token:
    """An installation's token, as GitHub returns it."""

    token: str = field(repr=False)
    expires_at: datetime

    @property
    def fresh(self) -> bool:
        return datetime.now(UTC) < self.expires_at - RENEW_BEFORE


@dataclass(frozen=True, slots=True)
class _Password(BaseAuthStrategy):
    """The token for git over HTTP, where it is a password.

    https://docs.github.com/apps/creating-github-apps/authenticating-with-a-github-app/authenticating-as-a-github-app-installation
    """

    token: str = field(repr=False)

    def get_auth_flow(self, github: GitHubCore[Any]) -> httpx.Auth:
        return httpx.BasicAuth("x-access-token", self.token)


class SharedTransport(httpx.AsyncBaseTransport):
    """One connection pool (with the environment's proxies) shared by all of githubkit's short-lived clients.

    githubkit opens and closes a client for every request unless its context is entered in the calling task. Closing such a
    client must not close the pool, so there is no `aclose` here; the owner calls `close`.
    """

    def __init__(self, api_url: str, retry_policy: RetryPolicy, download_hosts: Collection[str] = ()) -> None:
        self.api_url, self.retry_policy, self.download_hosts = api_url, retry_policy, download_hosts
        certificates = httpx.create_ssl_context()
        self._client = httpx.AsyncClient(verify=certificates, follow_redirects=False)
        self._direct = httpx.AsyncClient(verify=certificates, follow_redirects=False, trust_env=False)
        self._away: dict[str, tuple[float, Unreachable]] = {}  # hosts, since when (by a monotonic clock), and why

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        return await self._client.send(request, auth=None, stream=True, follow_redirects=False)

    async def fetch(self, target: str, header: Mapping[str, str] | None = None) -> httpx.Response:
        """Open a download without credentials. Raises `httpx.HTTPError`, and `GitHubError` for a target that is refused.

        `header`: what the server says that has to be sent.
        """
        host = _host(target)
        since, why = self._away.get(host, (0.0, None))
        if why is not None and monotonic() < since + _AWAY:
            raise Unreachable(str(why))
        try:
            return await self._fetch(target, header or {})
        except Unreachable as error:
            self._away = {host: known for host, known in self._away.items() if monotonic() < known[0] + _AWAY}
            self._away[host] = monotonic(), error
            raise

    async def _fetch(self, target: str, header: Mapping[str, str]) -> httpx.Response:
        timeout = httpx.Timeout(self.retry_policy.timeout, connect=self.retry_policy.connect)
        requests = await requests_for(target, self.api_url, self.download_hosts, timeout, header)
        is_silent = False
        for number, request in enumerate(requests, 1):
            # One that names an address must reach that address, and no proxy.
            client = self._direct if "sni_hostname" in request.extensions else self._client
            try:
                return await client.send(request, auth=None, stream=True, follow_redirects=False)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                is_silent = is_silent or isinstance(error, httpx.ConnectTimeout)
                if number < len(requests):
                    continue
                if is_silent:
                    seconds = f"{self.retry_policy.connect:g} s"
                    raise Unreachable(f"the host {_host(target)} cannot be connected to: no answer in {seconds}") from error
                raise
        raise AssertionError("the last request returns or raises")

    async def close(self) -> None:
        await self._client.aclose()
        await self._direct.aclose()


class Channel:
    """Sends requests with one identity. Paths start with "/" and are already quoted; results are JSON values."""

    def __init__(self, wire: SharedTransport, pace: WritePacer) -> None:
        self._wire, self._pace = wire, pace
        self.api_url, self.retry_policy = wire.api_url, wire.retry_policy
        self._answers: OrderedDict[tuple[object, ...], httpx.Response] = OrderedDict()

    async def _kit(self, *, git: bool = False) -> Kit[Any]:
        """`git`: for git over HTTP."""
        raise NotImplementedError

    def _refused(self, kit: Kit[Any]) -> bool:
        """Called after a 401; True if new credentials are available and the request may be sent once more."""
        return False

    def _open(self, auth: BaseAuthStrategy) -> Kit[Any]:
        return Kit(
            auth,
            base_url=self.api_url,
            async_transport=self._wire,
            cache_strategy=MemCacheStrategy(),  # the default is shared by the whole process
            http_cache=False,
            auto_retry=False,
            follow_redirects=False,
            timeout=self.retry_policy.timeout,
            user_agent="selfheal",
        )

    async def get(self, path: str, **params: str | int) -> Any:
        """Raises `GitHubError`."""
        return _json(await self._read(path, params))

    async def _read(self, path: str, params: Mapping[str, str | int]) -> httpx.Response:
        name = _name(path, params)
        known = self._answers.get(name)
        # GitHub's ETags are for one token: with the next one, it sends everything again.
        response = await self._send("GET", path, params=params, etag=known.headers["etag"] if known is not None else "")
        if known is not None and response.status_code == httpx.codes.NOT_MODIFIED:
            self._answers[name] = known  # another task may have made room meanwhile
            self._answers.move_to_end(name)
            return known
        self._answers.pop(name, None)
        if "etag" in response.headers and _size(response) <= _KEPT_BYTES:
            self._answers[name] = response
            while sum(map(_size, self._answers.values())) > _KEPT_BYTES:
                self._answers.popitem(last=False)
        return response

    async def listing(self, path: str, key: str | None = None, **params: str | int) -> AsyncIterator[Any]:
        """The items of all pages; `key` names the list if the response wraps it. Raises `GitHubError`.

        Only the `Link` header tells the last page: a page may be short, and some listings go on by a cursor.
        """
        asked: Mapping[str, str | int] = {"per_page": _PAGE, **params}
        seen: list[Mapping[str, str | int]] = []
        while asked not in seen and len(seen) < _MAX_PAGES:
            seen.append(asked)
            response = await self._read(path, asked)
            answer = _json(response)
            items = answer if key is None else answer.get(key) if isinstance(answer, dict) else None
            if not isinstance(items, list):
                raise Unavailable(f"GitHub's response to {path} is not a list")
            for item in items:
                yield item
            if "next" not in response.links:
                if len(items) >= _PAGE:  # the ETag is that of the body: a full page stays the same when the next one comes
                    self._answers.pop(_name(path, asked), None)
                return
            try:
                asked = dict(httpx.URL(response.links["next"]["url"]).params)
            except httpx.InvalidURL as error:
                raise Unavailable(f"GitHub's response to {path} names no next page: {error}") from error
        raise Unavailable(f"GitHub's response to {path} has no end")

    async def write(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        *,
        repeatable: bool = False,
        optional: bool = False,
        fence: Callable[[], None] | None = None,
    ) -> Any:
        """Send a write. `repeatable`: idempotent, so retried like a read. `optional`: not worth a wait for other writes, so
        refused with `RateLimited` instead. `fence` is called right before each request and prevents it by raising. Raises
        `GitHubError`.
        """
        await self._kit()  # a new token first: its time would shorten the pause that follows
        await self._pace.wait(0.0 if optional else self.retry_policy.longest_rate_limit)
        return _json(await self._send(method, path, body=body, repeatable=repeatable, fence=fence))

    async def ask_git(self, url: str, body: Mapping[str, Any], media_type: str) -> Any:
        """POST a question, which changes nothing, to an address of git over HTTP. Raises `GitHubError`."""
        headers = {"Accept": media_type, "Content-Type": media_type}
        return _json(await self._send("POST", url, body=body, repeatable=True, git=headers))

    async def _send(
        self,
        method: str,
        path: str,
        *,
        params: Mapping[str, str | int] | None = None,
        body: Mapping[str, Any] | None = None,
        repeatable: bool | None = None,
        fence: Callable[[], None] | None = None,
        git: Mapping[str, str] | None = None,
        etag: str = "",
    ) -> httpx.Response:
        """Send a request, retrying under `RetryPolicy`; follows redirects of renamed repositories on the same host.

        `git`: the headers of a request to git over HTTP, instead of the API. `etag`: of the answer that is known.
        """
        headers = dict({"X-GitHub-Api-Version": API_VERSION} if git is None else git)
        if etag:
            headers["If-None-Match"] = etag
        repeatable = method == "GET" if repeatable is None else repeatable
        renewed, tried, redirects, url = False, 0, 0, path
        while True:
            kit = await self._kit(git=git is not None)
            if fence is not None:
                fence()
            try:
                async with asyncio.timeout(self.retry_policy.timeout):
                    answer = await kit.arequest(method, url, params=params, json=body, headers=headers)
            except (GitHubException, TimeoutError, ValueError) as error:
                failure = _failure(error, f"{method} {path}")
                if isinstance(failure, BadCredentials) and not renewed and self._refused(kit):
                    renewed = True
                    continue
                if isinstance(failure, RateLimited):
                    await self._pace.block(failure.retry_after)
                tried += 1
                if (delay := self.retry_policy.delay(failure, tried, repeatable)) is None:
                    raise failure from error
                await asyncio.sleep(delay)
                continue
            response = answer.raw_response
            target = _redirect(response)
            if target is None or not _is_of_api(target, self.api_url) or redirects == _MAX_REDIRECTS:
                return response
            redirects, url, params = redirects + 1, target, None

    @asynccontextmanager
    async def download(self, path: str, link: Link | None = None) -> AsyncIterator[httpx.Response]:
        """Open the download to which GitHub redirects `path`, without sending our token to it. Raises `GitHubError`; an
        `httpx.HTTPError` inside the block becomes `Unavailable`.

        `link`: where it is, if that is known; `path` is only its name then.
        """
        tried = 0
        while True:
            target = link or _redirected(path, await self._send("GET", path))
            host = _host(target.href)
            failure: GitHubError
            try:
                response = await self._wire.fetch(target.href, target.header)
            except httpx.HTTPError as error:
                failure = Unavailable(f"GET {path}: the download from {host} failed: {type(error).__name__}")
            except (Unavailable, UnsafeDownload) as error:  # the host cannot be resolved or connected to, or is refused
                failure = error
            else:
                if (status := response.status_code) == httpx.codes.OK:
                    break
                await response.aclose()
                failure = _of_status(status, f"GET {path}: the download from {host} failed with {status}")
            failure.download_host = host
            tried += 1
            if (delay := self.retry_policy.delay(failure, tried, True)) is None:
                raise failure
            await asyncio.sleep(delay)
        try:
            yield response
        except httpx.HTTPError as error:
            failure = Unavailable(f"GET {path}: the download was interrupted: {type(error).__name__}")
            failure.download_host = host
            raise failure from error
        finally:
            await response.aclose()


class AppChannel(Channel):
    """Authenticates as the App itself (a short-lived JWT signed by githubkit)."""

    def __init__(self, wire: SharedTransport, pace: WritePacer, app_id: int, private_key: str) -> None:
        super().__init__(wire, pace)
        self._app = self._open(AppAuthStrategy(app_id, private_key))

    async def mint(self, path: str, body: Mapping[str, Any]) -> Any:
        """A token, without a wait for other writes: it is for reads too, and kept for an hour. Raises `GitHubError`."""
        return _json(await self._send("POST", path, body=body, repeatable=True))

    async def server_time(self) -> datetime | None:
        """The time in GitHub's response headers, requested without credentials. Raises `Unavailable`."""
        request = httpx.Request("GET", f"{self.api_url}/app", headers={"User-Agent": "selfheal"})
        try:
            async with asyncio.timeout(self.retry_policy.timeout):
                response = await self._wire.handle_async_request(request)
                await response.aclose()
        except (httpx.HTTPError, TimeoutError) as error:
            raise Unavailable(f"GitHub could not be reached: {type(error).__name__}") from error
        try:
            return parsedate_to_datetime(response.headers["date"]).astimezone(UTC)
        except (KeyError, ValueError):
            return None

    async def _kit(self, *, git: bool = False) -> Kit[Any]:
        return self._app


class InstallationChannel(Channel):
    """Authenticates with an installation's token; `mint` gets a new one."""

    def __init__(self, wire: SharedTransport, pace: WritePacer, mint: Callable[[], Awaitable[Token]]) -> None:
        super().__init__(wire, pace)
        self._mint = mint
        self._minting = asyncio.Lock()
        self._current: tuple[Token, Kit[Any]] | None = None

    async def _kit(self, *, git: bool = False) -> Kit[Any]:
        async with self._minting:
            if self._current is None or not self._current[0].fresh:
                token = await self._mint()
                hide_token(token.token)
                self._current = token, self._open(TokenAuthStrategy(token.token))
            token, kit = self._current
            return self._open(_Password(token.token)) if git else kit

    def _refused(self, kit: Kit[Any]) -> bool:
        if self._current is not None and self._current[0].token == kit.auth.token:
            self._current = None
        return True


def _json(response: httpx.Response) -> Any:
    if response.status_code == httpx.codes.NO_CONTENT:
        return None
    try:
        return response.json()
    except ValueError as error:
        raise Unavailable(f"GitHub's response to {response.request.method} {response.request.url.path} is not JSON") from error


def _name(path: str, params: Mapping[str, str | int]) -> tuple[object, ...]:
    return (path, *sorted(params.items()))


def _size(response: httpx.Response) -> int:
    return len(response.content) + _ANSWER_BYTES


def _redirect(response: httpx.Response) -> str | None:
    if response.status_code not in (301, 302, 303, 307, 308) or "location" not in response.headers:
        return None
    return urljoin(str(response.request.url), response.headers["location"])


def _redirected(path: str, response: httpx.Response) -> Link:
    if (target := _redirect(response)) is None:
        raise Unavailable(f"GitHub returned no download address for {path}")
    return Link(target)


def _host(url: str) -> str:
    """For people; "" if the URL is invalid."""
    try:
        return httpx.URL(url).host[:100]
    except httpx.InvalidURL:
        return ""


def _is_of_api(url: str, api_url: str) -> bool:
    """Whether the URL is one of the API, which gets our token. Downloads of an Enterprise server are not below it."""
    try:
        a, b = httpx.URL(url), httpx.URL(api_url)
    except httpx.InvalidURL:
        return False
    return (a.scheme, a.host, a.port) == (b.scheme, b.host, b.port) and a.path.startswith(f"{b.path.rstrip('/')}/")


def _failure(error: Exception, what: str) -> GitHubError:
    """Our exception for one of githubkit's. `what` names the request; the message never contains its headers or body."""
    match error:
        case RateLimitExceeded():
            return RateLimited(f"{what}: GitHub's rate limit was reached", max(0.0, error.retry_after.total_seconds()))
        case RequestFailed():
            return _of_answer(error.response.raw_response, what)
        case RequestTimeout() | TimeoutError():
            return Unavailable(f"{what}: GitHub did not answer in time")
        case RequestError(exc=httpx.HTTPError() as cause):
            return Unavailable(f"{what}: GitHub could not be reached: {type(cause).__name__}")
        case RequestError(exc=cause):
            # Nothing was sent: signing the App's JWT failed, which only a bad key causes.
            return BadCredentials(f"{what}: the App's private key cannot be used: {type(cause).__name__}")
    return Unavailable(f"{what}: GitHub's response is invalid: {type(error).__name__}")


def _of_answer(response: httpx.Response, what: str) -> GitHubError:
    try:
        answer = response.json()
    except ValueError:
        answer = None
    fields = answer if isinstance(answer, dict) else {}
    # The first line names the kind of error ("Repository rule violations found"), the others name what is wrong.
    kind, *wrong = [line.strip() for line in str(fields.get("message", ""))[:600].splitlines() if line.strip()] or [""]
    message = f"{kind}: {' '.join(wrong)}" if wrong else kind
    error = _of_message(response, fields, message, f"{what}: {response.status_code} {message}".rstrip(" ."))
    error.said = "; ".join([message, *error.reasons]) if isinstance(error, Invalid) else message
    if isinstance(error, Forbidden) and error.is_of_token:
        # The header tells what the request needs, on every answer: it does not say that this is missing.
        error.permission = response.headers.get("x-accepted-github-permissions")
    return error


def _of_message(response: httpx.Response, fields: dict[str, Any], message: str, text: str) -> GitHubError:
    if response.status_code == 429 or (response.status_code == 403 and "secondary rate limit" in message.lower()):
        # Without a `retry-after` header GitHub asks for at least a minute.
        return RateLimited(text, 60.0)
    if response.status_code == 422:
        errors = fields.get("errors")
        reasons = [_reason(each) if isinstance(each, dict) else str(each) for each in errors or ()]
        text = "; ".join([text, *reasons])[:1000].rstrip(".")
        if "submitted too quickly" in text:  # GitHub limits new content by 422 too, and names no time
            return RateLimited(text, _TOO_QUICKLY)
        return Invalid(text, tuple(reasons))
    return _of_status(response.status_code, text)


def _reason(error: dict[str, Any]) -> str:
    """GitHub's words, or its field and code: "head invalid"."""
    named = " ".join(str(error[key]) for key in ("field", "code") if error.get(key))
    return str(error.get("message") or named or error)


def _of_status(status: int, text: str) -> GitHubError:
    match status:
        case 401:
            return BadCredentials(text)
        case 403 | 451:
            return Forbidden(text)
        case 404:
            return NotFound(text)
        case 410:
            return Gone(text)
        case 409:
            return Conflict(text)
        case 429:
            return RateLimited(text, 60.0)
        case 400 | 413 | 422:
            return Invalid(text)
    return Unavailable(text)
