"""Pull requests by the addresses that people see; read without credentials."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Self

import httpx

_PULL = re.compile(r"(?P<web>https?://[^/?#@\s]+)/(?P<repository>[\w.-]+/[\w.-]+)/pull/(?P<number>[1-9]\d{0,18})(?:[/?#].*)?")
_SECONDS = 20.0
_LARGEST = 4 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class PullAddress:
    web: str  # "https://github.com"
    repository: str  # "octo/calc"
    number: int

    @classmethod
    def of(cls, url: str) -> Self | None:
        """None if it is not the address of a pull request."""
        found = _PULL.fullmatch(url)
        return cls(found["web"], found["repository"], int(found["number"])) if found is not None else None

    @property
    def repository_url(self) -> str:
        """For git."""
        return f"{self.web}/{self.repository}.git"


async def pull_text(address: PullAddress, api_url: str) -> str | None:
    """The text of a public pull request; None if it cannot be read. `api_url` is used if it is the API of that server."""
    try:
        host = httpx.URL(address.web).host
        if httpx.URL(api_url).host.removeprefix("api.") != host:
            api_url = "https://api.github.com" if host == "github.com" else f"{address.web}/api/v3"
        path = f"{api_url.rstrip('/')}/repos/{address.repository}/pulls/{address.number}"
        content, headers = bytearray(), {"Accept": "application/vnd.github+json", "User-Agent": "selfheal"}
        async with (
            httpx.AsyncClient(timeout=_SECONDS, follow_redirects=False) as client,
            client.stream("GET", path, headers=headers) as answer,
        ):
            async for chunk in answer.aiter_bytes():
                content += chunk
                if len(content) > _LARGEST:
                    return None
        text = json.loads(content).get("body") if answer.status_code == httpx.codes.OK else None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, AttributeError):
        return None
    return text if isinstance(text, str) else None
