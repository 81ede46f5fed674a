import pytest

from agent.contract.proposal import Span
from agent.contract.verdicts import Failure, VerdictId
from agent.proposers.patterns.differences import LETTERS, SPACES, lost_methods
from agent.proposers.patterns.generate import changes


@pytest.mark.parametrize(
    ("message", "details", "lost"),
    [
        ("AssertionError: assert 'b ' == 'b'", "", SPACES),
        ("AssertionError: 'b\\n' != 'b'", "", SPACES),
        ("AssertionError: assert 'Ab' == 'ab'", "", LETTERS),
        (
            "AssertionError: assert [B(value='b ')] == [B(value='b')]",
            "E       assert [B(value='b ')] == [B(value='b')]",
            SPACES,
        ),
        ("AssertionError: Lists differ", "E   - ['A']\nE   + ['a']\nE   ?   ^", LETTERS),
        ("AssertionError: assert 1 == 2", "", ()),
        ("KeyError: 'b '", "", ()),
        ("AssertionError: assert <A> == <A>", "", ()),
        ("AssertionError: Lists differ", "E   - ['a']\nE   + ['a']", ()),
        ("?", "", ()),
        (f"AssertionError: assert '{'b' * 2_000} ' == 'b'", "", ()),
    ],
)
def test_a_difference_of_spaces_or_letters_is_read(message: str, details: str, lost: tuple[str, ...]) -> None:
    assert lost_methods([Failure(VerdictId("t"), message, details, ())]) == lost


def test_what_the_failures_show_to_be_missing_comes_first() -> None:
    text = "import re\n\n\ndef clean(part):\n    return re.sub('#.*', '', part)\n"
    suspects = [Span("a.py", 5, 5, 1.0, "")]
    titles = {lost: [change.title for change in changes({"a.py": text}, suspects, 500, lost=lost)[0]] for lost in ((), SPACES)}
    missing = "`re.sub('#.*', '', part)` becomes `re.sub('#.*', '', part).rstrip()`"
    assert not any(title.startswith(missing) for title in titles[()])
    assert any(title.startswith(missing) for title in titles[SPACES][:12])
