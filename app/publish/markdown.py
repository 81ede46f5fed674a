"""Text from outside made harmless in GitHub's Markdown: test ids, error messages, model words, branch names, log lines.

Such text may try to notify people (`@all`), close or reference issues ("fixes #1"), break out of its block, inject HTML, hide
itself (bidirectional and invisible characters) or carry a secret. Whatever comes from outside goes through a `Quoter`.

GitHub looks for mentions and references in the rendered text outside of code, so escaping `@` does not help: a zero-width
space after it does. In code only closing keywords are broken, so that a test id can still be copied.

Texts of ours and of models mark code with backticks, as Markdown does. `prose` keeps such spans as code: it reads them by
CommonMark's rule (a run of ticks closes at the next run of the same length), writes each anew with a fence that its content
cannot close, and leaves no other backtick standing, so that our reading and GitHub's cannot differ.
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
_WORD_PART = r"(?<=[^\W_])_(?=[^\W_])"  # an underscore inside a word is no emphasis
_SPECIAL = re.compile(rf"{_WORD_PART}|([\\*_\[\]~|$^])")
_PLAIN = re.compile(rf"[^\w .,:/()=+%\-{ZWSP}]|(?!{_WORD_PART})_|(?<=www)\.|:(?=//)", re.IGNORECASE)
_LINE_START = re.compile(r"^(\d*)([-+#=.)])")


class _Visible(dict[int, int | None]):
    """A table for `str.translate` that drops control, format (bidirectional, zero-width), private and unassigned characters."""

    def __missing__(self, code: int) -> int | None:
        dropped = unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Co", "Cn") and chr(code) not in "\n\t"
        self[code] = None if dropped else code
        return self[code]


_VISIBLE = _Visible()


class Quoter:
    """Quotes outside text; `secrets` are this installation's own, hidden besides every known shape of token."""

    def __init__(self, secrets: Collection[str] = ()) -> None:
        self._secrets = tuple(secrets)

    def clean(self, text: str, limit: int) -> str:
        """Visible characters, tabs and newlines only, no secrets, at most `limit` characters. Not yet safe as Markdown."""
        text = text[: 4 * limit + 4096]  # far more than is shown, so that no secret is cut in the middle unseen
        text = _NEWLINES.sub("\n", _ANSI.sub("", text))
        text = text.translate(_VISIBLE)
        text = redact(text, self._secrets)
        return text if len(text) <= limit else text[: max(0, limit - 1)] + ELLIPSIS

    def line(self, text: str, limit: int = 200) -> str:
        """One line of plain text for titles and commit messages: nobody is mentioned, nothing is referenced."""
        return _broken(" ".join(self.clean(text, limit).split()))

    def prose(self, text: str, limit: int = 1000) -> str:
        """One paragraph that renders as its characters: no HTML, mention or reference, and no Markdown but code spans."""
        flat = shortened(" ".join(self.clean(text, 4 * limit).split()), limit)
        made, at = "", 0
        for found in _CODE.finditer(flat):
            between = _broken(_escaped(flat[at : found.start()]))
            # Two spans that touch would be read as one.
            made += (between or (ZWSP if at else "")) + _span(_unclosing(found[2]))
            at = found.end()
        made += _broken(_escaped(flat[at:]))
        return _LINE_START.sub(r"\1\\\2", made)

    def span(self, text: str, limit: int = 200) -> str:
        """A code span on one line, in the middle of Markdown (not in a table: see `cell`)."""
        return _span(_unclosing(" ".join(self.clean(text, limit).split())))

    def cell(self, text: str, limit: int = 120) -> str:
        """Code in a table's cell: as HTML, because a `|` would end the cell even in a code span."""
        text = _unclosing(" ".join(self.clean(text, limit).split()))
        return "<code>" + _PLAIN.sub(lambda m: f"&#{ord(m.group())};", text) + "</code>"

    def fence(self, text: str, limit: int = 4000, language: str = "") -> str:
        """A fenced block; `language` is our own word. Needs to stand on lines of its own."""
        text = _unclosing(self.clean(text, limit).strip("\n"))
        ticks = "`" * max(3, _longest_run(text) + 1)
        return f"{ticks}{language}\n{text}\n{ticks}"


def link(text: str, url: str) -> str:
    """A link with our own words; a URL that is not plain http(s) is left out."""
    return f"[{text}]({url})" if re.fullmatch(r"https?://[A-Za-z0-9._~:/?#@!$&*+,;=%\[\]-]+", url) else text


def shortened(text: str, limit: int) -> str:
    """At most `limit` characters, cut at a word where one ends late enough, and never inside of code marked by backticks."""
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
    """`code` is one line; its fence is longer than any run of ticks in it."""
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
