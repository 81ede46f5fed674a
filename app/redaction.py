"""Redacts secrets in text before a person, a page or GitHub sees it: known token formats, values whose name suggests a secret,
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
from typing import Any
from urllib.parse import quote, unquote

HIDDEN = "[redacted]"
SHORTEST = 6  # a shorter exact secret would hide ordinary words

# Process-wide, because a token must be redacted from the moment it exists. Tokens that drop out have expired.
_minted: deque[str] = deque(maxlen=64)


def _alone(beginning: str) -> str:
    """A short prefix, in which words may end: it must not follow a letter, except in a colour code (`\\x1b[32m`), an
    escaped newline (`\\n`) or a percent-encoded character."""
    is_code = rf"(?<=[\[0-9]m{beginning})|(?<=\\[nrt]{beginning})|(?<=%[0-9A-Fa-f][A-Fa-f]{beginning})"
    return rf"{beginning}(?:(?<![A-Za-z]{beginning})|{is_code})"


# Each pattern begins with a literal character, so that the search skips most text quickly, and none backtracks over the same
# text from many positions: the text may be hostile and megabytes long.
_SHAPES = re.compile(
    "|".join(
        (
            r"gh[opsur]_(?:[A-Za-z0-9]{20,}|[0-9]+_eyJ)[A-Za-z0-9_.\-]*",  # GitHub
            rf"{_alone('gh[opsur]_')}[A-Za-z0-9_.\-]{{16,}}",
            r"github_pat_[A-Za-z0-9_]{20,}",
            rf"{_alone('v1')}\.[0-9a-f]{{40}}\b",  # GitHub, older installation tokens
            r"A(?:KIA|SIA|GPA|ROA|IDA)[0-9A-Z]{12,}",  # AWS
            r"xox[abceoprs]-[A-Za-z0-9-]{8,}",  # Slack
            rf"{_alone('xapp')}-[A-Za-z0-9-]{{8,}}",
            # Stripe, OpenAI, Anthropic, OpenRouter
            *(rf"{_alone(kind)}[-_](?:live|test|proj|ant|or)[-_][A-Za-z0-9_-]{{12,}}" for kind in ("sk", "rk", "pk")),
            rf"{_alone('sk')}-[A-Za-z0-9_-]{{20,}}",
            r"AIza[0-9A-Za-z_-]{30,}",  # Google
            r"ya29\.[0-9A-Za-z_-]{20,}",
            r"glpat-[A-Za-z0-9_-]{16,}",  # GitLab
            r"npm_[A-Za-z0-9]{30,}",
            r"pypi-[A-Za-z0-9_-]{40,}",
            r"hf_[A-Za-z0-9]{30,}",
            r"e2b_[A-Za-z0-9]{20,}",
            r"SG(?<![A-Z]SG)\.[A-Za-z0-9_-]{16,}\.[A-Za-z0-9_-]{16,}",  # SendGrid
            r"dckr_pat_[A-Za-z0-9_-]{16,}",
            r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]+",
            # Truncated keys too.
            r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----[\s\S]*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",
        )
    )
)
# Also matches text that only starts like a JWT and leaves it unchanged: a search inside it would not take linear time.
_JWT = re.compile(r"eyJ[A-Za-z0-9_-]{8,}(\.[A-Za-z0-9_-]{8,}(?:\.[A-Za-z0-9_-]*)?)?")
_SHORTEST_SHAPE = 13  # characters; Slack's tokens

_NAME = (
    r"(?:pass(?:word|wd|phrase)?|pwd|secret|token|api[_-]?key|access[_-]?key(?:[_-]?id)?|private[_-]?key|auth[_-]?key"
    r"|client[_-]?secret|credentials?|signing[_-]?key|encryption[_-]?key)"
)
_NAMED = re.compile(
    # the name, possibly quoted; one `=` or `:` (not `==` or `::`, as in comparisons and test ids); the value
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

_JOINT = re.compile(r"[:=\s]")  # required by each of the three patterns above


def hide_token(secret: str) -> None:
    """From now on, redact a secret that was created while the process runs (an installation's token)."""
    if secret not in _minted:
        _minted.append(secret)


def redact(text: str, secrets: Collection[str] = ()) -> str:
    """`text` with every secret replaced by "[redacted]". `secrets` are exact texts, also found encoded (see `_forms`)."""
    if len(text) < SHORTEST:  # fast path for most names and values of a log line
        return text
    text = hide_exact(text, secrets)
    if len(text) >= _SHORTEST_SHAPE:
        text = _shaped(text)
    if _JOINT.search(text) is None:  # a single word, such as an id
        return text
    text = _IN_URL.sub(rf"\1{HIDDEN}\3", text)
    text = _BEARER.sub(rf"\1{HIDDEN}", text)
    return _NAMED.sub(_hide_value, text)


def redact_values(value: Any, secrets: Collection[str] = ()) -> Any:
    """`value` with its texts redacted, in lists and dictionaries too, and whole where a key names a secret.

    JSON is redacted before it is encoded: in its text, quotes have escapes that hide a secret's name, and what is replaced
    may be no JSON any more.
    """
    if isinstance(value, str):
        return redact(value, secrets)
    if isinstance(value, list | tuple):
        return [redact_values(item, secrets) for item in value]
    if isinstance(value, dict):
        return {
            key: HIDDEN if isinstance(item, str) and is_secret_name(str(key)) else redact_values(item, secrets)
            for key, item in value.items()
        }
    return value


def hide_shaped(value: Any) -> Any:
    """`value` with texts that are secrets by their own shape replaced, and no others: code stays the same code."""
    if isinstance(value, str):
        return _shaped(hide_exact(value, ()))
    if isinstance(value, list):
        return [hide_shaped(item) for item in value]
    if isinstance(value, dict):
        return {key: hide_shaped(item) for key, item in value.items()}
    return value


def hide_exact(text: str, secrets: Collection[str]) -> str:
    """`text` without these exact secrets, and without secrets that were created while the process runs."""
    forms = _all_forms((*secrets, *_minted))
    if forms and len(text) >= len(forms[-1]):
        for form in forms:
            text = text.replace(form, HIDDEN)
    return text


def holds_secret(text: str, secrets: Collection[str]) -> bool:
    """Whether `text` contains one of these exact secrets, or a secret that was created while the process runs."""
    return any(form in text for form in _all_forms((*secrets, *_minted)))


@lru_cache(maxsize=256)
def no_plain_words(secrets: Collection[str]) -> tuple[str, ...]:
    """The secrets without short words, such as the password `postgres`: code may contain these without knowing the secret."""
    return tuple(secret for secret in secrets if len(secret) >= 16 or not secret.isalpha())


def is_secret_name(name: str) -> bool:
    """Whether a field of that name holds a secret, whatever its value looks like."""
    return _SECRET_NAME.search(name) is not None


def passwords(url: str) -> Iterator[str]:
    """The password in a URL, percent-encoded and decoded, because clients may show it without the URL."""
    if found := _IN_URL.search(url):
        yield found.group(2)
        yield unquote(found.group(2))


def _shaped(text: str) -> str:
    text = _SHAPES.sub(HIDDEN, text)
    return _JWT.sub(lambda match: HIDDEN if match[1] else match[0], text) if "eyJ" in text else text


def _hide_value(match: re.Match[str]) -> str:
    name, value = match.groups()
    if value.lower() in _HARMLESS:
        return match.group()
    edge = value[0] if value[0] in "\"'" else ""
    return f"{name}{edge}{HIDDEN}{edge}"


@lru_cache(maxsize=32)
def _all_forms(secrets: tuple[str, ...]) -> tuple[str, ...]:
    """The secrets' forms, longest first: one secret may be part of another."""
    return tuple(sorted({form for one in secrets for form in _forms(one)}, key=len, reverse=True))


def _forms(secret: str) -> set[str]:
    """The forms of a secret in a text: as it is, its lines, JSON-escaped, percent-encoded, hexadecimal, and base64 (at
    each of the three offsets within a longer text)."""
    secret = secret.strip()
    if len(secret) < SHORTEST:
        return set()
    lines = {line.strip() for line in secret.splitlines() if len(line.strip()) >= 16}
    raw = secret.encode()
    encoded = {base64.b64encode(b" " * shift + raw).decode()[(0, 2, 3)[shift] :].rstrip("=") for shift in range(3)}
    # The last character depends on what follows.
    encoded = {form[:-1] for form in encoded if len(form) > SHORTEST + 2}
    encoded.add(base64.b64encode(raw).decode().rstrip("="))
    return {secret, quote(secret, safe=""), json.dumps(secret)[1:-1], raw.hex(), *encoded, *lines}
