"""What a model's server may answer, good and bad, told apart from the API that carries it."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Reply:
    """One answer. `status` other than 200 sends `code` and `content` as an error; `raw` replaces the whole body.

    `tokens` = (prompt, completion); None leaves the usage out, and by default they are estimated at four characters each.
    """

    content: str | None = ""
    finish: str = "stop"
    status: int = 200
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)
    tokens: tuple[int, int] | None = (-1, -1)
    before: float = 0.0  # seconds of silence first; infinite: never answers
    drip: float = 0.0  # seconds between the bytes of the body, 16 at a time
    raw: bytes | None = None


def rate_limited(retry_after: float | None = 1, *, quota: bool = False) -> Reply:
    """429; `quota`: the account is used up, so that waiting does not help."""
    headers = {} if retry_after is None else {"retry-after": f"{retry_after:g}"}
    code = "insufficient_quota" if quota else "rate_limit_exceeded"
    return Reply("Rate limit reached for requests", status=429, code=code, headers=headers)


def failing(status: int = 500) -> Reply:
    return Reply("The server had an error while processing your request", status=status, code="server_error")


def unauthorized() -> Reply:
    return Reply("Incorrect API key provided", status=401, code="invalid_api_key")


def context_too_long() -> Reply:
    text = "This model's maximum context length is 4096 tokens. However, your messages resulted in 90000 tokens."
    return Reply(text, status=400, code="context_length_exceeded")


def refused() -> Reply:
    """The provider's content policy refuses the prompt (400)."""
    text = "Your request was rejected as a result of our safety system. (content_policy_violation)"
    return Reply(text, status=400, code="content_policy_violation")


def withheld() -> Reply:
    """200, with the content filtered away."""
    return Reply(None, finish="content_filter")


def hanging() -> Reply:
    return Reply(before=float("inf"))


def truncated(content: str) -> Reply:
    return Reply(content, finish="length")


def empty() -> Reply:
    return Reply(None)


def huge(size: int = 10_000_000) -> Reply:
    return Reply("all work and no play makes a dull patch\n" * (size // 40))


def garbage() -> Reply:
    """200, and not JSON."""
    return Reply(raw=b"<html>upstream \xff\x00 says hello</html>")


def dripping(content: str, seconds: float = 0.05) -> Reply:
    return Reply(content, drip=seconds)
