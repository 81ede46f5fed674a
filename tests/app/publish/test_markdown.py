"""Hostile text, judged by a real Markdown parser: what comes from outside stays text."""

import random
import re

import pytest
from markdown_it import MarkdownIt
from markdown_it.token import Token

from app.publish.markdown import ZWSP, Quoter, link, shortened

CLOSING = re.compile(r"(?i)(?<![a-z])(close|fix|resolve)[sd]?(es|ed)?:?\s+(#\d|[\w.-]+/[\w.-]+#\d|https?://)")

NASTY = [
    "@octocat fixes #1",
    "closes owner/repo#12, resolves https://github.com/o/r/issues/3 and GH-4",
    "```\n</details>\n# out of the fence",
    "````\n```\n`````",
    "`a` ``b`` `",
    "<img src=x onerror=alert(1)><script>alert(1)</script>",
    "<!-- selfheal:pull:other -->",
    "[click](javascript:alert(1)) ![i](https://evil.example/x.png)",
    "| a | b |\n|---|---|\n| \\| c |",
    "\u202eevil\u2066 \u200bhid\u200dden \x1b[31mred\x1b[0m \x00\x07 \ud800",
    "# heading",
    "- [ ] task",
    "1. list",
    "    indented code",
    "> quote",
    "===",
    "***bold*** __x__ ~~y~~ $x^2$ a_b_c",
    "&lt;b&gt; &#64;octocat",
    "www.example.org someone@example.org",
    "ghp_" + "a1B2" * 9,
    "",
    " ",
    "a\\",
    "<details><summary>",
    "[ref]: https://evil.example",
    "`@octocat` `fixes #1` closes `x` #2",
    "``` `@all` ```` x `` @octocat `",
    "`a\\`@octocat`b",
    "`<img src=x>` <`b`> &`amp;`",
    "`code\u202e\u2066` `` ` `` @team",
    "`fixes\n#1` ```` `",
    "```\n`@octocat`\n```",
]
FRAGMENTS = [
    "@",
    "#1",
    "`",
    "```",
    "\n",
    "|",
    "<b>",
    "</details>",
    "\\",
    "fixes ",
    "a/b",
    "](x)",
    "*",
    "\u202e",
    " ",
    "_",
    "&",
    "1.",
    "- ",
    "``",
    "a_b",
    "@octocat",
    "closes #3",
]


def hostile() -> list[str]:
    chance = random.Random(20261121)
    return NASTY + ["".join(chance.choices(FRAGMENTS, k=chance.randrange(1, 25))) for _ in range(300)]


def parse(text: str) -> list[Token]:
    parser = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
    flat: list[Token] = []
    for token in parser.parse(text):
        flat += [token, *(token.children or [])]
    return flat


def letters(text: str) -> str:
    """What is shown, apart from spaces and from the ticks that make code of it."""
    return "".join(text.replace(ZWSP, "").replace("`", "").split())


@pytest.fixture
def quote() -> Quoter:
    return Quoter(("configured-secret",))


def test_prose_renders_as_one_paragraph_of_exactly_its_characters(quote: Quoter) -> None:
    for text in hostile():
        tokens = parse(quote.prose(text))
        kinds = {"text", "text_special", "code_inline"}
        assert {t.type for t in tokens} <= kinds | {"paragraph_open", "inline", "paragraph_close"}, text
        shown = "".join(t.content for t in tokens if t.type in kinds)
        assert letters(shown) == letters(quote.clean(text, 1000)), text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("`grams < limit` becomes `grams <= limit` in bracket_for", ["grams < limit", "grams <= limit"]),
        ("``a `b` c`` and `d`", ["a `b` c", "d"]),
        ("`@octocat` owns `a_b` | `c|d`", ["@octocat", "a_b", "c|d"]),
        ("`a``b` `c`", ["a``b", "c"]),
        ("`<script>` `</details>`", ["<script>", "</details>"]),
        ("one `left open, then `closed", ["left open, then"]),
        ("no code ` here", []),
        ("``` two ` three", []),
        ("\\`code`", ["code"]),
        ("`a\\`b", ["a\\"]),
        ("`a\u202e\u200bb`", ["ab"]),
    ],
)
def test_code_in_prose_stays_code(quote: Quoter, text: str, shown: list[str]) -> None:
    assert [t.content.replace(ZWSP, "") for t in parse(quote.prose(text)) if t.type == "code_inline"] == shown


def test_identifiers_and_paths_stand_as_they_are(quote: Quoter) -> None:
    assert quote.prose("`<` becomes `<=` in in_range (src/a_b.py:3)") == "`<` becomes `<=` in in_range (src/a_b.py:3)"


def test_a_text_is_cut_at_a_word_and_never_inside_of_code() -> None:
    assert shortened("short", 10) == "short"
    for text in (*hostile(), "`grams < limit` becomes `grams <= limit` in `bracket_for`, which is long enough to be cut"):
        for limit in (10, 30, 60):
            made = shortened(text, limit)
            assert len(made) <= limit
            assert text.count("`") % 2 or not made.count("`") % 2 or made == text, (text, made)
    assert shortened("one two three four", 13) == "one two…"


def test_prose_and_titles_mention_and_reference_nobody(quote: Quoter) -> None:
    reaching = re.compile(r"@[A-Za-z0-9]|#\d|https?://|www\.\w|GH-\d")
    for text in hostile():
        assert not reaching.search(quote.line(text)), text
        # In code nobody is mentioned; what is not code must not try.
        outside = "\0".join(t.content for t in parse(quote.prose(text)) if t.type in ("text", "text_special"))
        assert not reaching.search(outside), text
        assert not CLOSING.search(quote.prose(text)), text


def test_a_fence_holds_whatever_is_in_it(quote: Quoter) -> None:
    for text in hostile():
        tokens = parse(f"before\n\n{quote.fence(text)}\n\nafter")
        assert [t.type for t in tokens if t.level == 0 and t.type not in ("inline", "text")] == [
            "paragraph_open", "paragraph_close", "fence", "paragraph_open", "paragraph_close",
        ], text  # fmt: skip


def test_a_code_span_holds_whatever_is_in_it(quote: Quoter) -> None:
    for text in hostile():
        tokens = [t for t in parse(f"a {quote.span(text)} b") if t.type not in ("paragraph_open", "paragraph_close", "inline")]
        assert [t.type for t in tokens] == ["text", "code_inline", "text"], text


def test_a_cell_never_breaks_its_row(quote: Quoter) -> None:
    for text in hostile():
        tokens = parse(f"| x | y |\n|---|---|\n| {quote.cell(text)} | end |\n")
        assert sum(t.type == "td_open" for t in tokens) == 2, text
        assert {t.content for t in tokens if t.type == "html_inline"} <= {"<code>", "</code>"}, text


def test_closing_keywords_are_broken_in_code_too(quote: Quoter) -> None:
    for made in (quote.span("fixes #1"), quote.fence("Closes: o/r#2"), quote.span("resolved https://github.com/o/r/issues/1")):
        assert not CLOSING.search(made)


def test_invisible_characters_are_gone_and_cannot_split_a_secret(quote: Quoter) -> None:
    for text in hostile():
        assert not re.search(
            r"[\x00-\x08\x0b-\x1f\x7f\u200c-\u200f\u202a-\u202e\u2060-\u2069\ufeff\ud800-\udfff]", quote.prose(text)
        )
    split = "ghp_" + f"a1B2{ZWSP}" * 9
    assert "redacted" in quote.fence(split)
    assert "redacted" in quote.prose("x configured-\u2060secret y")


def test_a_secret_is_hidden_before_the_text_is_cut(quote: Quoter) -> None:
    made = quote.clean("x" * 20 + " ghp_" + "a1B2" * 9, 30)
    assert "ghp_" not in made
    assert len(made) <= 30


def test_a_link_takes_plain_web_addresses_only() -> None:
    assert link("run", "https://github.com/o/r/actions/runs/1") == "[run](https://github.com/o/r/actions/runs/1)"
    for url in ("https://x/@dependabot", "javascript:alert(1)", "https://x/) [y](https://z", "", "https://x/\nevil"):
        assert link("run", url) == "run"
