"""What GitHub and the bots around it would do because of a text. Written from their documentation; uses nothing of ours.

GitHub acts on rendered text outside code; bots act on the source. One function is for bodies and comments, one for titles and
commit messages, whose beginning tools read too.
"""

from __future__ import annotations

import re

from markdown_it import MarkdownIt
from markdown_it.token import Token

ZWSP = "\u200b"
PULL = 31337  # the pull request that broke, which our texts may reference
OWN_TAGS = {"<code>", "</code>", "<details>", "</details>", "<summary>", "</summary>"}
_OWN_LINES = ("Heal CI: ", f"Heal #{PULL}: ", "Environment: ", "Cost: ", "Cause: ", "Selfheal-Attempt: ")

_BY_GITHUB = {
    "mentions": r"(?<![A-Za-z0-9])@[A-Za-z0-9]",
    "references": rf"#(?!{PULL}\b)\d|\bGH-\d|\bGHSA-\w|(?<![A-Za-z0-9])[A-Z][A-Z0-9]+-\d",
    "names a commit": r"\b[0-9a-f]{7,40}\b",
    "links": r"(?:https?|ftp)://|\bwww\.\w|\b(?:mailto|xmpp):\S+@\w",
    "shows an emoji": r":(?:[+-]1|[a-z][a-z0-9_]+):",
}
_BY_BOTS = {
    "calls": r"(?<![A-Za-z0-9])@[A-Za-z0-9]",
    "commands": r"(?:^|[\s(>*`])/[a-z][\w-]*(?=[\s).,`]|$)",
    "commands by name": r"\b(?:bors|homu|jenkins)[:,]?\s+\w|\btest\W+this\W+please|\bok\W+to\W+test|\badd\W+to\W+whitelist",
    "closes": (
        r"(?i)(?<![a-z])(?:clos(?:e[sd]?|ing)|fix(?:e[sd])?|resolve[sd]?|completes)"
        r"\s*:?\s+(?:#\d|GH-\d|https?://|[A-Z]+-\d|[\w.-]+/[\w.-]+#\d)"
    ),
    "skips CI": r"(?i)\[[\w -]*\bskip\b[\w -]*\]|\[no ci\]|\*\*\*NO_CI\*\*\*|\bskip-checks:",
    "keeps state": r"<!--(?! selfheal:(?:(?:pull|comment|attempt):att_1|receipt [A-Za-z0-9+/=]+) -->)",
    "begins with a trailer": r"^(?:[A-Za-z][\w-]*|BREAKING CHANGE)(?:\([^)\n]*\))?!?:[ \t]",
    "begins with words of others": r"^(?:LGTM|recheck|rebase|retest|approved?)(?=[\s!?,.]|$)",
}
_UNSEEN = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u034f\u061c\u115f\u1160\u180b-\u180f\u200c-\u200f\u2028-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff9-\ufffb\ud800-\udfff\U000e0000-\U000e0fff]"
)


def effects_of_markdown(source: str) -> list[str]:
    """What a body or a comment would do; empty if nothing."""
    tokens = _tokens(source)
    found = [f"GitHub {what}: {hit}" for what, hit in _hits(_BY_GITHUB, _outside_code(tokens))]
    found += [f"loads {token.attrs.get('src')}" for token in tokens if token.type == "image"]
    found += [f"links {href}" for token in tokens if token.type == "link_open" and not _is_githubs(href := _href(token))]
    found += [f"has HTML: {tag}" for tag in _tags(tokens) if tag not in OWN_TAGS and not tag.startswith("<!-- selfheal:")]
    found += [f"runs {token.info}" for token in tokens if token.type == "fence" and token.info not in ("", "diff")]
    return found + _by_bots(source)


def effects_of_plain(source: str) -> list[str]:
    """What a title or a commit message would do."""
    found = [f"GitHub {what}: {hit}" for what, hit in _hits(_BY_GITHUB, source)]
    first = source.split("\n")[0]
    if re.match(r"\w+(?:\([^)]*\))?!?: ", first) or re.search(r"\+semver|\[[^\W\d]|(?:fixup|squash|amend)!", source):
        found.append(f"releases: {first}")
    return found + _by_bots(source)


def _by_bots(source: str) -> list[str]:
    lines = "\n".join(line for line in source.split("\n") if not line.startswith(_OWN_LINES))
    found = [f"bot {what}: {hit}" for what, hit in _hits(_BY_BOTS, lines)]
    return found + [f"hides {ord(hit):x}" for hit in _UNSEEN.findall(source)]


def _hits(patterns: dict[str, str], text: str) -> list[tuple[str, str]]:
    return [(what, hit[0]) for what, pattern in patterns.items() if (hit := re.search(pattern, text, re.MULTILINE))]


def _tokens(source: str) -> list[Token]:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    return [token for block in parser.parse(source) for token in (block, *(block.children or []))]


def _outside_code(tokens: list[Token]) -> str:
    """The rendered text outside code; a NUL stands for what is between."""
    parts, in_code = list[str](), False
    for token in tokens:
        if token.type in ("html_inline", "link_open", "link_close"):  # where a link leads is judged, not what it says
            in_code = token.content == "<code>" or token.type == "link_open"
        if token.type in ("text", "text_special") and not in_code:
            parts.append(token.content)
        elif token.type not in ("text", "text_special"):
            parts.append("\0")
    return "".join(parts)


def _href(token: Token) -> str:
    return str(token.attrs.get("href"))


def _is_githubs(href: str) -> bool:
    return bool(re.match(r"https://github\.com/|http://(?:127\.0\.0\.1|localhost):\d+/", href))


def _tags(tokens: list[Token]) -> list[str]:
    html = "\n".join(token.content for token in tokens if token.type in ("html_block", "html_inline"))
    return re.findall(r"<!--.*?-->|</?\w[^>]*>", html, re.DOTALL)
