"""Makes untrusted text inert on GitHub: test ids, error messages, model output, branch names, log lines.

Such text may try to notify people (`@all`), close or reference issues ("fixes #1"), command other bots (`/approve`, "bors r+",
"[skip ci]"), break out of its block, inject HTML, hide itself (bidirectional and invisible characters) or leak a secret. All
untrusted text goes through a `Quoter`. Two kinds of readers count:

- GitHub finds mentions and references in rendered text outside code, so escaping `@` does not help; a zero-width space in it
  does.
- Bots read the Markdown's source, also inside code. They look for a word with a mark (`@bot`, `/command`, `[skip ci]`) or for a
  phrase at the start of a line. So such marks are broken everywhere, and no line of the source starts with untrusted words. In
  code little else is broken, so that test ids can still be copied.

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

_ANSI = re.compile(r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[@-Z\\-_]")
_NEWLINES = re.compile(r"\r\n?|[\x0b\x0c\x85\u2028\u2029]")

# A zero-width space follows each match of these four.
_COMMANDS = re.compile(  # what a bot obeys wherever it stands
    r"(?<![a-z0-9])@(?=\w)"
    r"|(?<![\w./~<})\]])/(?=[a-z][\w-]*+(?!/))"  # `/approve`, but not a path or a tag
    r"|\b(?:bors|homu|jenkins)(?=[:,]?(?:\s+\w|\s*$))"  # bots that are called without a mark
    r"|te(?=st\W{1,60}this\W{1,60}please)|\bo(?=k\W{1,60}to\W{1,60}test)|\bad(?=d\W{1,60}to\W{1,60}whitelist)"  # Jenkins
    r"|\[(?=[^\[\]\n]{0,40}\bskip\b[^\[\]\n]{0,40}\]|no[ -]ci\])|\*\*(?=\*NO_CI)|\bskip(?=-checks\b)"  # CI is skipped
    r"|<(?=!--)"  # state that bots keep in comments
    r"|(?<!\w)#(?=\d)",
    re.IGNORECASE,
)
_CLOSING = re.compile(
    r"(?<![a-z])(?:clos(?:e[sd]?|ing)|fix(?:e[sd]|ing)?|resolv(?:e[sd]?|ing)|complet(?:e[sd]?|ing)|implement(?:s|ed|ing)?)"
    r"(?=(?::?\s{1,8}|\s{1,4}:\s{1,8})(?:#|https?:|[a-z][a-z0-9_]*-\d|[\w.-]+/[\w.-]+#))",
    re.IGNORECASE,
)
_REFERENCES = re.compile(  # what GitHub links or replaces in rendered text
    rf"@(?!{ZWSP})|#(?!{ZWSP})|(?<=:)(?=//)|\bwww(?=\.)"
    r"|(?<![a-z0-9])(?:[a-z][a-z0-9_]+-(?=\d)|GHSA-)"  # `GH-1`, and the keys of trackers
    r"|[0-9a-f]{6}(?=[0-9a-f])"  # a commit; GitHub needs seven characters
    r"|:(?=(?:[+-]1|[a-z0-9_+-]{0,40}[a-z][a-z0-9_+-]{0,40})(?::|$))",  # emoji: some are images, some are votes
    re.IGNORECASE,
)
# Lines of code that start with an ordinary word ("LGTM") or like a commit's trailer ("Co-authored-by: …"): not test ids.
_WORDS = re.compile(r"^(?=[A-Za-z]++(?![\w/:\[(-]|\.\w)|[A-Za-z][\w-]*+(?:\([^)\n]*\))?!?:[ \t])", re.MULTILINE)
_TAGS = re.compile(r"[\[+](?=[^\W\d])")  # "[major]", "+semver: major": in titles and commits, tools read these
_CODE = re.compile(r"(?<!`)(`+)(?!`)(.*?[^`])\1(?!`)")
# Lines of a whole message that start as a command or a trailer does. Our own start with a capital letter or a mark.
_LINES = re.compile(
    r"^(?:[ \t>]*(?:[-*] )?(?=[/!@]\w)|(?:[-*] )?(?=[a-z][\w-]*(?:[!:,\s]|[.;]\s|\Z)|[A-Z][a-z]*-[\w-]+:))", re.MULTILINE
)
_WORD_PART = r"(?<=[^\W_])_(?=[^\W_])"  # an underscore inside a word is not emphasis
_SPECIAL = re.compile(rf"{_WORD_PART}|([\\*_\[\]~|$^])")
_PLAIN = re.compile(rf"[^\w .,:/()=+%\-{ZWSP}]|(?!{_WORD_PART})_|(?<=www)\.|:(?=//)", re.IGNORECASE)
_WORD_START = re.compile(r"^(?=\w)")
_LINE_START = re.compile(r"^(\d*)([-+#=.)])")


# Invisible characters that Unicode counts as letters or marks: fillers, joiners, selectors of variants.
_BLANK = frozenset({0x34F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0, *range(0x180B, 0x1810), *range(0xFE00, 0xFE10)})


class _Visible(dict[int, int | None]):
    """A `str.translate` table that drops control, format (bidirectional, zero-width), private, unassigned and invisible
    characters."""

    def __missing__(self, code: int) -> int | None:
        dropped = unicodedata.category(chr(code)) in ("Cc", "Cf", "Cs", "Co", "Cn") and chr(code) not in "\n\t"
        self[code] = None if dropped or code in _BLANK or 0xE0100 <= code <= 0xE01EF else code
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
        """One line of plain text for titles and commit messages, without mentions, references or commands.

        Trusted words must precede it: tools read the first word of a title ("feat!: …") and of a line ("BREAKING CHANGE: …").
        """
        return _after(_TAGS, _inert(" ".join(self.clean(text, limit).split())))

    def prose(self, text: str, limit: int = 1000) -> str:
        """One paragraph that renders literally: no HTML, mention, reference or command, and no Markdown except code spans."""
        flat = shortened(" ".join(self.clean(text, 4 * limit).split()), limit)
        made, at = "", 0
        for found in _CODE.finditer(flat):
            between = _inert(_escaped(flat[at : found.start()]))
            # Adjacent spans would be parsed as one.
            made += (between or (ZWSP if at else "")) + _span(_unobeyed(found[2]))
            at = found.end()
        made += _inert(_escaped(flat[at:]))
        return _LINE_START.sub(r"\1\\\2", made)

    def paragraph(self, text: str, limit: int = 1000) -> str:
        """`prose` without trusted words before it: to a bot, the line does not start with a word."""
        return _WORD_START.sub(ZWSP, self.prose(text, limit))

    def span(self, text: str, limit: int = 200) -> str:
        """A one-line code span (for tables, see `cell`)."""
        return _span(_unobeyed(" ".join(self.clean(text, limit).split())))

    def cell(self, text: str, limit: int = 120) -> str:
        """Code in a table cell, as HTML because `|` ends the cell even in a code span."""
        text = _unobeyed(" ".join(self.clean(text, limit).split()))
        return "<code>" + _PLAIN.sub(lambda m: f"&#{ord(m.group())};", text) + "</code>"

    def fence(self, text: str, limit: int = 4000, language: str = "", room: int | None = None) -> str:
        """A fenced block, on its own lines. `language` must be trusted; `room`: the block's bytes, if they are limited too."""
        text = _WORDS.sub(ZWSP, _unobeyed(self.clean(text, limit).strip("\n")))
        ticks = "`" * max(3, _longest_run(text) + 1)
        if room is not None:
            text = cut_bytes(text, room - len(f"{ticks}{language}\n\n{ticks}"))
        return f"{ticks}{language}\n{text}\n{ticks}"


def uncommanded(markdown: str) -> str:
    """The text of a comment or pull request without lines that begin as a command to a bot does."""
    return _after(_LINES, markdown)


def link(text: str, url: str) -> str:
    """A link with trusted text, or only the text if the URL is not plain http(s)."""
    return f"[{text}]({url})" if re.fullmatch(r"https?://[A-Za-z0-9._~:/?#&+,;=%-]+", url) else text


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


def cut_bytes(text: str, limit: int) -> str:
    """At most `limit` bytes (UTF-8), of whole lines if there are several."""
    whole = text.encode()
    if len(whole) <= limit:
        return text
    kept = whole[: max(0, limit - len(f"\n{ELLIPSIS}".encode()))].decode(errors="ignore")
    lines = kept.rpartition("\n")[0]
    return f"{lines or kept}\n{ELLIPSIS}"


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


def _inert(text: str) -> str:
    """Text outside code."""
    return _after(_REFERENCES, _unobeyed(text))


def _unobeyed(text: str) -> str:
    """Code, in which GitHub finds nothing, but bots do."""
    return _after(_COMMANDS, _after(_CLOSING, text))


def _after(pattern: re.Pattern[str], text: str) -> str:
    """A zero-width space after each match."""
    return pattern.sub(lambda m: m.group() + ZWSP, text)
