import time

import pytest

from agent.ci.shell.pieces import commands, is_simple, pieces
from agent.ci.shell.words import assignments, in_one_line


def read(text: str) -> list[object]:
    """Operators as text, words of the shell's own as lists, commands as tuples."""
    found: list[object] = []
    for piece in pieces(text):
        assert piece.kind == "operator" or text[piece.start : piece.end] == piece.text
        match piece.kind:
            case "operator":
                found.append(piece.text)
            case "command":
                found.append(piece.words)
            case kind:
                found.append([kind, *piece.words] if kind == "opaque" else list(piece.words))
    return found


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("a && b 'x;y'|c # d", [("a",), "&&", ("b", "x;y"), "|", ("c",)]),
        ('tox -- -k "a;b && $(c)"', [("tox", "--", "-k", '"a;b && $(c)"')]),
        ("pip install \"tomli; python_version<'3.11'\" \\\n b", [("pip", "install", "tomli; python_version<'3.11'", "b")]),
        ("a > f 2>&1; b &> g", [("a",), ";", ("b",)]),
        ("if a; then b; else c; fi", [["if"], ("a",), ";", ["then"], ("b",), ";", ["else"], ("c",), ";", ["fi"]]),
        ("for x in a 'b c'; do d; done", [["for", "x", "in", "a", "b c"], ";", ["do"], ("d",), ";", ["done"]]),
        ("f() { a; }\nf", [["function", "f"], ["{"], ("a",), ";", ["}"], "\n", ("f",)]),
        ("function g\n{ a; }", [["function", "g"], ["{"], ("a",), ";", ["}"]]),
        ("(a)|| ! b", [["("], ("a",), [")"], "||", ["!"], ("b",)]),
        (
            "case $x in\na|b) c;;\n*) d\nesac",
            [["case", "$x", "in"], "\n", ["pattern", "a", "b"], ("c",), ";;", "\n", ["pattern", "*"], ("d",), "\n", ["esac"]],
        ),
        ("cat <<EOF > f\nit's $(\nEOF\nb", [("cat",), "\n", ("b",)]),
        ("[[ a && b < c ]] && d", [("[[", "a", "b", "c", "]]"), "&&", ("d",)]),
        ("a &&\n  # why\n  b", [("a",), "&&", ("b",)]),
        ("echo if then fi", [("echo", "if", "then", "fi")]),
        ("x=$(a 'b)' | c) d `e;f`", [("x=$(a 'b)' | c)", "d", "`e;f`")]),
        ("diff <(a; b) c", [("diff", "<(a; b)", "c")]),
        ('echo a#b ${#x} "${y:-it\'s}"', [("echo", "a#b", "${#x}", "${y:-it's}")]),
        ("ok\necho 'open\nb", [("ok",), "\n", ["opaque", "echo", "'open", "b"]]),
        ("fi", [["opaque", "fi"]]),
        ("if a; then b", [["opaque", "if", "a;", "then", "b"]]),
    ],
)
def test_shell_text_comes_apart_where_a_shell_takes_it_apart(text: str, found: list[object]) -> None:
    assert read(text) == found


def test_redirections_and_what_only_a_shell_knows_are_told_apart() -> None:
    (piece,) = pieces("pip install '$(a)' <<-'X' > log\n\tb\n\tX\n")[:1]
    assert (piece.redirections, piece.here_documents, piece.is_computed) == (("<<-'X'", "> log"), ("<<-'X'",), False)
    assert commands('pip install "$(a)"')[0].is_computed
    assert assignments(["env", "A=1", "B=x=y", "make"]) == ({"A": "1", "B": "x=y"}, ["make"])
    assert [is_simple(text) for text in ("a b", "a; b", "(a)", "a &")] == [True, False, False, False]


@pytest.mark.parametrize(
    "text",
    [
        "pytest" + " " * 400_000 + "x",
        "'a\n" * 100_001,
        '"$(\n' * 100_000,
        "$(" * 200_000,
        "{ a; " * 50_000,
        "if " * 100_000,
        "<<a\n" * 50_000,
        "a | " * 50_000 + "a",
        "$'" * 100_000,
    ],
    ids=lambda text: repr(text[:8]),
)
def test_hostile_text_is_read_in_time_that_grows_with_it_alone(text: str) -> None:
    began = time.monotonic()
    pieces(text)
    assert time.monotonic() - began < 30  # quadratic, it takes minutes


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("echo lint\n  python -m pytest -q\n", "echo lint; python -m pytest -q"),
        ("(\n  cd a\n  pytest\n)", "( cd a; pytest; )"),
        ("if true; then\n  pytest\nfi", "if true; then pytest; fi"),
        ("pytest " + "x" * 100, "pytest " + "x" * 31 + " …"),
    ],
)
def test_shell_text_in_a_sentence_keeps_all_of_its_lines(text: str, shown: str) -> None:
    assert in_one_line(text, 40) == shown
