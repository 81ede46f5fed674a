"""Secrets taken out of text before a person, a page or GitHub sees it: known token shapes, values that are named as secrets,
and the exact secrets of this installation.

It errs on the side of hiding: a harmless value after `token=` is hidden too.
"""

from __future__ import annotations

import base64
import json
import re
from collections import deque
from collections.abc import Collection, Iterator
from functools import lru_cache
from urllib.parse import quote, unquote

HIDDEN = "[redacted]"
SHORTEST = 6  # an exact secret shorter than that would hide ordinary words

# Of this process, as whatever shows text must know of a token the moment that it exists; old ones have expired.
_minted: deque[str] = deque(maxlen=64)

_WORDS = "|".join(
    (
        r"gh[opsur]_[A-Za-z0-9_.\-]{16,}",  # GitHub
        r"github_pat_[A-Za-z0-9_]{20,}",
        r"v1\.[0-9a-f]{40}\b",  # GitHub, older installation tokens
        r"(?:AKIA|ASIA|AGPA|AROA|AIDA)[0-9A-Z]{12,}\b",  # AWS
        r"xox[abceoprs]-[A-Za-z0-9-]{8,}",  # Slack
        r"xapp-[A-Za-z0-9-]{8,}",
        r"eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?",  # JWT
        r"(?:sk|rk|pk)[-_](?:live|test|proj|ant|or)[-_][A-Za-z0-9_-]{12,}",  # Stripe, OpenAI, Anthropic, OpenRouter
        r"sk-[A-Za-z0-9_-]{20,}",
        r"AIza[0-9A-Za-z_-]{30,}",  # Google
        r"ya29\.[0-9A-Za-z_-]{20,}",
        r"glpat-[A-Za-z0-9_-]{16,}",  # GitLab
        r"npm_[A-Za-z0-9]{30,}",
        r"pypi-[A-Za-z0-9_-]{40,}",
        r"hf_[A-Za-z0-9]{30,}",
        r"e2b_[A-Za-z0-9]{20,}",
        r"SG\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
        r"dckr_pat_[A-Za-z0-9_-]{16,}",
    )
)
# The boundary stands before all of them, once: each text that is logged is searched, and most places are none.
_SHAPES = re.compile(
    rf"\b(?:{_WORDS})"
    r"|hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]+"
    r"|-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)"  # cut ones too
)
_SHORTEST_SHAPE = 13  # characters; Slack's, of its kind and eight more

_NAME = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|auth[_-]?key"
    r"|client[_-]?secret|credentials?|signing[_-]?key|encryption[_-]?key)"
)
_NAMED = re.compile(
    # name, perhaps in quotes; one `=` or `:` (neither `==` nor `::`: comparisons and test ids); the value
    rf"(?i)({_NAME}[\"']?[ \t]*(?:=>|(?<![=!<>:])=(?!=)|:(?![:=]))[ \t]*)"
    r"(\"[^\"\n]{4,}\"|'[^'\n]{4,}'|[^\s\"'`,;&()\[\]{}<>]{4,})"
)
_SECRET_NAME = re.compile(r"secret|passw|private_key|api_key|authorization|credential|(^|_)token$", re.IGNORECASE)
_HARMLESS = frozenset(
    {"none", "null", "true", "false", "str |", "bytes", "optional", "[redacted]"}
    # "BadCredentials: POST /app/…" names no secret.
    | {"get", "post", "put", "patch", "delete", "head"}
)
_BEARER = re.compile(r"(?i)\b((?:authorization[\"']?\s*[:=]\s*[\"']?)?(?:bearer|basic)\s+)([A-Za-z0-9+/=_.~-]{12,})")
_IN_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{1,20}://[^\s/:@]{0,200}:)([^\s/@]{1,500})(@)")

_JOINT = re.compile(r"[:=\s]")  # what each of the three before needs


def minted(secret: str) -> None:
    """Hide a secret that came into being while the process runs (an installation's token), from now on and everywhere."""
    if secret not in _minted:
        _minted.append(secret)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """`text` with every secret replaced by "[redacted]". `secrets` are exact ones, also found in base64, JSON and URL form."""
    if len(text) < SHORTEST:  # most names and values of a log line
        return text
    forms = _all_forms((*secrets, *_minted))
    if forms and len(text) >= len(forms[-1]):
        for form in forms:
            text = text.replace(form, HIDDEN)
    if len(text) >= _SHORTEST_SHAPE:
        text = _SHAPES.sub(HIDDEN, text)
    if _JOINT.search(text) is None:  # one word, an id say: it names nothing
        return text
    text = _IN_URL.sub(rf"\1{HIDDEN}\3", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _NAMED.sub(_hide_value, text)


@lru_cache(maxsize=256)
def is_secret_name(name: str) -> bool:
    """Whether a field of that name holds a secret, whatever it looks like."""
    return _SECRET_NAME.search(name) is not None


def passwords(url: str) -> Iterator[str]:
    """The password inside a URL, as it stands there and decoded: clients tell it alone, too."""
    if found := _IN_URL.search(url):
        yield found.group(2)
        yield unquote(found.group(2))


def _hide_value(match: re.Match[str]) -> str:
    name, value = match.groups()
    if value.lower() in _HARMLESS:
        return match.group()
    edge = value[0] if value[0] in "\"'" else ""
    return f"{name}{edge}{HIDDEN}{edge}"


@lru_cache(maxsize=32)
def _all_forms(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The longest first: one secret may be part of another."""
    return tuple(sorted({form for one in secrets for form in _forms(one)}, key=len, reverse=True))


def _forms(secret: str) -> set[str]:
    """The ways in which one secret may stand in a text: itself, its lines, quoted, percent-encoded, base64 (also of a longer
    text that it is a part of, which begins at any of three places)."""
    secret = secret.strip()
    if len(secret) < SHORTEST:
        return set()
    lines = {line.strip() for line in secret.splitlines() if len(line.strip()) >= 16}
    raw = secret.encode()
    encoded = {base64.b64encode(b" " * shift + raw).decode()[(0, 2, 3)[shift] :].rstrip("=") for shift in range(3)}
    # The last character depends on what follows.
    encoded = {form[:-1] for form in encoded if len(form) > SHORTEST + 2}
    encoded.add(base64.b64encode(raw).decode().rstrip("="))
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], *encoded, *lines}
