"""Makes untrusted text safe in GitHub's Markdown: test ids, error messages, model output, branch names, log lines.

Such text may try to notify people (`@all`), close or reference issues ("fixes #1"), break out of its block, inject HTML, hide
itself (bidirectional and invisible characters) or leak a secret. All untrusted text goes through a `Quoter`.

GitHub finds mentions and references in rendered text outside code, so escaping `@` does not help; a zero-width space after it
does. In code, only closing keywords are broken, so that test ids can still be copied.

Other bots read the raw text, also in code blocks, and obey lines that begin with a command ("/approve", "bors r+"). Our own
lines begin with a capital letter or a mark, so `uncommanded` puts a zero-width space before any other, and before trailers. In
titles and commit messages, words that skip CI are broken too.

Selfheal's own texts and models mark code with backticks. `prose` keeps such spans: it parses them by CommonMark's rule (a run
of backticks closes at the next run of the same length), rewrites each with a fence that its content cannot close, and escapes
all other backticks, so that GitHub cannot parse them differently.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Collection

from app.redaction import redact

ZWSP = "\u200b"
ELLIPSIS = "…"

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_NEWLINES = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")
_REFERENCE = re.compile(r"(@|#|\bGH-|(?<=:)(?=//)|\bwww(?=\.))", re.IGNORECASE)
_CLOSING = re.compile(
    r"(?i)(?<![a-z])(close[sd]?|fix(?:e[sd])?|resolve[sd]?)(:?\s{1,8}|\s{1,4}:\s{1,8})(?=#|GH-|https?:|[\w.-]+/[\w.-]+#)"
)
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.*?[^`])\1(?!`)")
_SKIPPING = re.compile(r"(?i)(?<=\[)(?=(?:skip|no|ci|actions)[ -])|(?<=skip)(?=-checks)")
_COMMAND = re.compile(
    r"^(?:[ \t>]*(?:[-*] )?(?=[/!@]\w)|(?:[-*] )?(?=[a-z][\w-]*(?:[!:,\s]|[.;]\s|\Z)|[A-Z][a-z]*-[\w-]+:))", re.MULTILINE
)
_WORD_PART = r"(?<=[^\W_])_(?=[^\W_])"  # an underscore inside a word is not emphasis
_SPECIAL = re.compile(rf"{_WORD_PART}|([\\*_\[\]~|$^])")
_PLAIN = re.compile(rf"[^\w .,:/()=+%\-{ZWSP}]|(?!{_WORD_PART})_|(?<=www)\.|:(?=//)", re.IGNORECASE)
_LINE_START = re.compile(r"^(\d*)([-+#=.)])")


class _Visible(dict[int, int | None]):
    """A `str.translate` table that drops control, format (bidirectional, zero-width), private and unassigned characters."""

    def __missing__(self, code: int) -> int | None:
        dropped = unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Co", "Cn") and chr(code) not in "\n\t"
        self[code] = None if dropped else code
        return self[code]


_VISIBLE = _Visible()


class Quoter:
    """Quotes untrusted text. Redacts `secrets` (this installation's) and every known token format."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        self._secrets = tuple(secrets)

    def clean(self, text: str, limit: int) -> str:
        """At most `limit` visible characters, tabs and newlines, without secrets. Not yet safe as Markdown."""
        text = text[: 4 * limit + 4096]  # far more than is shown, so that no secret is cut and missed
        text = _NEWLINES.sub("\n", _ANSI.sub("", text))
        text = text.translate(_VISIBLE)
        text = redact(text, self._secrets)
        return text if len(text) <= limit else text[: max(0, limit - 1)] + ELLIPSIS

    def line(self, text: str, limit: int = 200) -> str:
        """One line of plain text for titles and commit messages, without mentions or references."""
        return _SKIPPING.sub(ZWSP, _broken(" ".join(self.clean(text, limit).split())))

    def prose(self, text: str, limit: int = 1000) -> str:
        """One paragraph that renders literally: no HTML, mention or reference, and no Markdown except code spans."""
        flat = shortened(" ".join(self.clean(text, 4 * limit).split()), limit)
        made, at = "", 0
        for found in _CODE.finditer(flat):
            between = _broken(_escaped(flat[at : found.start()]))
            # Adjacent spans would be parsed as one.
            made += (between or (ZWSP if at else "")) + _span(_unclosing(found[2]))
            at = found.end()
        made += _broken(_escaped(flat[at:]))
        return _LINE_START.sub(r"\1\\\2", made)

    def span(self, text: str, limit: int = 200) -> str:
        """A one-line code span (for tables, see `cell`)."""
        return _span(_unclosing(" ".join(self.clean(text, limit).split())))

    def cell(self, text: str, limit: int = 120) -> str:
        """Code in a table cell, as HTML because `|` ends the cell even in a code span."""
        text = _unclosing(" ".join(self.clean(text, limit).split()))
        return "<code>" + _PLAIN.sub(lambda m: f"&#{ord(m.group())};", text) + "</code>"

    def fence(self, text: str, limit: int = 4000, language: str = "") -> str:
        """A fenced block, on its own lines. `language` must be trusted."""
        text = _unclosing(self.clean(text, limit).strip("\n"))
        ticks = "`" * max(3, _longest_run(text) + 1)
        return f"{ticks}{language}\n{text}\n{ticks}"


def uncommanded(markdown: str) -> str:
    """The text of a comment or pull request without lines that begin as a command to a bot does."""
    return _COMMAND.sub(lambda m: m.group() + ZWSP, markdown)


def link(text: str, url: str) -> str:
    """A link with trusted text, or only the text if the URL is not plain http(s)."""
    return f"[{text}]({url})" if re.fullmatch(r"https?://[A-Za-z0-9._~:/?#@!$&*+,;=%\[\]-]+", url) else text


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, cut at a word boundary in the second half if possible, never inside backticks."""
    if len(text) <= limit:
        return text
    cut = text[: max(0, limit - 2)]
    at = cut.rfind(" ")
    cut = cut[:at] if at > limit // 2 else cut
    if cut.count("`") % 2:
        at = cut.rfind("`")
        cut = cut[:at] if at > limit // 2 else f"{cut}{ELLIPSIS}`"
    return cut if cut.endswith(f"{ELLIPSIS}`") else cut.rstrip() + ELLIPSIS


def _escaped(text: str) -> str:
    text = text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;").replace("`", "&grave;")
    return _SPECIAL.sub(lambda m: f"\\{m[1]}" if m[1] else m.group(), text)


def _span(code: str) -> str:
    """A span of one line, with a fence longer than any run of backticks in it."""
    code = code.strip() or " "
    ticks = "`" * (_longest_run(code) + 1)
    pad = " " if code.startswith("`") or code.endswith("`") else ""
    return f"{ticks}{pad}{code}{pad}{ticks}"


def _longest_run(text: str) -> int:
    return max((len(run) for run in re.findall("`+", text)), default=0)


def _broken(text: str) -> str:
    return _REFERENCE.sub(lambda m: m.group() + ZWSP, text)


def _unclosing(text: str) -> str:
    return _CLOSING.sub(lambda m: m[1] + ZWSP + m[2], text)
