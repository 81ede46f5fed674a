"""Sanitizes untrusted text for pages, and builds links to the configured GitHub; runs slow work on texts in threads.

Texts are bounded and contain no secrets. Invisible characters (control, escape, bidirectional) are shown by code point instead
of being dropped, so that reviewers notice them. The templates escape HTML.
"""

from __future__ import annotations

import asyncio
import re
import unicodedata
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from agent.ci.job.contexts import web_address
from app.redaction import redact

LONGEST = 20_000  # characters of one text
LONGEST_LINE = 2_000  # characters of one line of it
_ROOM = 4096  # characters redacted beyond the limit, so that no secret is cut and missed
_SUSPECT = re.compile(r"[^\n\t\x20-\x7e\u00a1-\u00ac\u00ae-\u02af\u0370-\u058f\u2010-\u2027\u3040-\u30ff\u4e00-\u9fff]")
_UNSEEN = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
_MARKS_IN_A_ROW = re.compile(
    "([\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff\ufe20-\ufe2f]{4})[\u0300-\u036f\u1ab0-\u1aff\u20d0-\u20ff\ufe20-\ufe2f]+"
)
_REPOSITORY = re.compile(r"[A-Za-z0-9._-]{1,100}/[A-Za-z0-9._-]{1,100}")
_SHA = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?")


class Sanitizer:
    """Makes untrusted text safe to show. `secrets`: this installation's secrets, to redact."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        self._secrets = tuple(secrets)

    def text(self, text: str, limit: int = LONGEST) -> str:
        """At most about `limit` characters, in lines of bounded length, with a note about what was cut."""
        length = len(text)
        text = redact(text[: limit + _ROOM].replace("\r\n", "\n"), self._secrets)
        if length > limit:
            text = f"{text[:limit]}… ({length:,} characters, rest not shown)"
        if len(text) > LONGEST_LINE:
            text = "\n".join(map(_cut, text.split("\n")))
        return _MARKS_IN_A_ROW.sub(r"\1", _SUSPECT.sub(_seen, text))


def _cut(line: str) -> str:
    if len(line) <= LONGEST_LINE:
        return line
    return f"{line[:LONGEST_LINE]}… (line of {len(line):,} characters, rest not shown)"


def _seen(match: re.Match[str]) -> str:
    character = match.group()
    if unicodedata.category(character) not in _UNSEEN:
        return character
    return f"⟦U+{ord(character):04X}⟧"


class Links:
    """URLs on the configured GitHub; None for an invalid repository name or commit."""

    def __init__(self, api_url: str) -> None:
        """`api_url`: URL of the REST API of github.com, GitHub Enterprise Server or GitHub Enterprise Cloud."""
        self._web = web_address(api_url)

    def repository(self, full_name: str) -> str | None:
        known = _REPOSITORY.fullmatch(full_name) and ".." not in full_name
        return f"{self._web}/{full_name}" if known else None

    def commit(self, full_name: str, sha: str | None) -> str | None:
        base = self.repository(full_name)
        return f"{base}/commit/{sha}" if base and sha and _SHA.fullmatch(sha) else None

    def pull(self, full_name: str, number: int) -> str | None:
        base = self.repository(full_name)
        return f"{base}/pull/{number}" if base else None


T = TypeVar("T")
_THREADS = ThreadPoolExecutor(2, "pages")  # more would not be faster, because of the GIL


async def run_in_thread(work: Callable[[], T]) -> T:
    """Run slow page work in its own threads, so that it blocks neither the event loop, which answers webhooks, nor the default
    thread pool, which for example resolves host names.

    Raises what the work raises. Cancelling the caller does not stop the work.
    """
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
