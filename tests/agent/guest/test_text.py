import pytest

from agent.guest.text import ID_LIMIT, clean, identity, one_line


@pytest.mark.parametrize(
    ("text", "cleaned"),
    [
        ("\x1b[1;31mred\x1b[0m", "red"),
        ("\x1b]0;title\x07text", "text"),
        ("\x1b]8;;http://e\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("a\x00\x08b\x9b", "ab"),
        ("\ud800x\udfff", "x"),
        ("safe\u202eevil\u2066\u200b", "safeevil"),
        ("a\r\nb\rc\td", "a\nb\nc\td"),
    ],
)
def test_nothing_but_printable_text_is_left(text: str, cleaned: str) -> None:
    assert clean(text, 100) == cleaned
    assert clean(clean(text, 100), 100) == cleaned


def test_long_text_keeps_its_start_and_its_end() -> None:
    text = clean("start" + "x" * 10_000 + "end", 400)
    assert len(text) <= 400
    assert text.startswith("start")
    assert text.endswith("end")


def test_ids_of_any_length_stay_different() -> None:
    one, other = identity("t[" + "a" * 5000 + "1]"), identity("t[" + "a" * 5000 + "2]")
    assert one != other
    assert max(len(one), len(other)) <= ID_LIMIT
    assert identity(one) == one


def test_the_first_line_that_says_something() -> None:
    assert one_line("\n \n  a\tb \nc", 10) == "a b"
    assert one_line("", 10) == ""
