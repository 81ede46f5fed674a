from __future__ import annotations

import pytest

from app.dashboard.safe_text import LONGEST_LINE, Links, Sanitizer


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain ünïcode, 日本語 and 🎉", "plain ünïcode, 日本語 and 🎉"),
        ("\x1b[31mred\x1b[0m", "⟦U+001B⟧[31mred⟦U+001B⟧[0m"),
        ("\x1b]8;;http://evil\x07link", "⟦U+001B⟧]8;;http://evil⟦U+0007⟧link"),
        ("a\u202eb", "a⟦U+202E⟧b"),
        ("zero\u200bwidth\u00adand\ufeffmarks", "zero⟦U+200B⟧width⟦U+00AD⟧and⟦U+FEFF⟧marks"),
        ("nul\x00del\x7fc1\x9b", "nul⟦U+0000⟧del⟦U+007F⟧c1⟦U+009B⟧"),
        ("line\u2028separator", "line⟦U+2028⟧separator"),
        ("lone \ud800 surrogate", "lone ⟦U+D800⟧ surrogate"),
        ("two\r\nlines\rthree", "two\nlines⟦U+000D⟧three"),
        ("tag \U000e0041", "tag ⟦U+E0041⟧"),
    ],
)
def test_what_cannot_be_seen_is_shown_by_its_name(text: str, shown: str) -> None:
    assert Sanitizer().text(text) == shown


def test_towers_of_combining_marks_are_cut() -> None:
    assert Sanitizer().text("z" + "\u0301" * 500) == "z" + "\u0301" * 4


def test_ten_megabytes_are_cut_and_say_so() -> None:
    shown = Sanitizer().text("x" * 10_000_000)
    assert len(shown) < LONGEST_LINE + 200
    assert "rest not shown" in shown
    assert Sanitizer().text("ab\n" * 3_333_333).endswith("(9,999,999 characters, rest not shown)")


def test_a_long_line_is_cut_and_the_others_stay() -> None:
    shown = Sanitizer().text("short\n" + "y" * 5000 + "\nlast").split("\n")
    assert (shown[0], shown[2]) == ("short", "last")
    assert shown[1].endswith("(line of 5,000 characters, rest not shown)")


def test_secrets_are_hidden_also_where_the_text_is_cut() -> None:
    secret = "s3cr3t-of-this-installation"
    sanitizer = Sanitizer([secret])
    assert secret not in sanitizer.text(f"key {secret}")
    assert secret[:10] not in sanitizer.text("x" * 95 + secret, limit=100)
    assert "ghp_" not in sanitizer.text("ghp_" + "a1" * 20)


@pytest.mark.parametrize(
    ("api", "web"),
    [
        ("https://api.github.com", "https://github.com"),
        ("https://github.example.com/api/v3", "https://github.example.com"),
        ("https://api.octo.ghe.com", "https://octo.ghe.com"),
        ("http://127.0.0.1:4000", "http://127.0.0.1:4000"),
    ],
)
def test_links_lead_to_the_configured_github(api: str, web: str) -> None:
    links = Links(api)
    assert links.pull("octo/calculator", 3) == f"{web}/octo/calculator/pull/3"
    assert links.commit("octo/calculator", "a" * 40) == f"{web}/octo/calculator/commit/{'a' * 40}"


def test_what_is_no_repository_or_commit_has_no_address() -> None:
    links = Links("https://api.github.com")
    assert links.pull("octo/../evil", 3) is None
    assert links.pull("javascript:alert(1)//x", 3) is None
    assert links.commit("octo/calculator", "../../evil") is None
    assert links.commit("octo/calculator", None) is None
