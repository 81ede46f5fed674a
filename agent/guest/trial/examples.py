"""What functions promise in their own docstrings, tried: `>>> f(1)` sessions and lines like `f(1) == 2`; inside the sandbox.

A change that keeps the promises goes before one that breaks them; one that breaks them is challenged.
"""

import ast
import contextlib
import doctest
import io
import re

MOST = 40
SHOWN = 120  # characters of a value that people may see
_LINE = re.compile(
    r"^\s*(?:[-*]\s*)?(?P<call>(?P<name>[A-Za-z_]\w*)\(.*\))\s*"
    r"(?:==|=>|->|➞|→|➔|⇒|returns|should return|should be)\s*(?P<value>\S.*?)\s*$"
)


def of(docstring, name):
    """[(expression, wanted text or (value,)), …]: sessions as printed text, other lines as literal values."""
    found = []
    try:
        for example in doctest.DocTestParser().get_examples(docstring):
            if example.exc_msg is None:
                found.append((example.source, example.want))
    except ValueError:
        pass
    return [*found, *_lines(docstring, name)][:MOST]


def _lines(docstring, name):
    """Lines like `f(1) == 2`. One with a plain `=` may define something else as well, and does not count."""
    for line in docstring.splitlines():
        match = None if ">>>" in line or len(line) > 500 else _LINE.match(line)
        if match is None or match.group("name") != name:
            continue
        try:
            ast.parse(match.group("call"), mode="eval")
            yield match.group("call"), (_literal(match.group("value")),)
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue


def _kind(value):
    return float if isinstance(value, (bool, int, float, complex)) else type(value)


def _literal(text):
    """The literal that the text is, or begins with ("[1, 2] # why", "5.")."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        return ast.literal_eval(re.split(r"\s+(?:#|//)|\.$", text)[0])


def kept(examples, namespace, limit):
    """How many of the examples come out as written."""
    names = dict(namespace)
    return sum(outcome(source, want, names, limit)[0] == "kept" for source, want in examples)


def outcome(source, want, names, limit):
    """["kept" | "broken" | "unlike" | "impossible", what came].

    Broken is a plain value in place of another; unlike is whatever else may also be a matter of how it is written down, and
    impossible what fails for want of something around it.
    """
    return limit.run(lambda: _outcome(source, want, names), 0.2, 1.0) or ["unlike", "nothing in time"]


def _outcome(source, want, names):
    value, printed = None, io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            try:
                value = eval(source, names)
            except SyntaxError:
                exec(source, names)
    except (NameError, ImportError, OSError, SyntaxError) as error:
        return ["impossible", type(error).__name__]
    except Exception as error:
        return ["unlike", type(error).__name__]
    if not isinstance(want, tuple):
        if not want.strip():  # `>>> f(1) == 2` and nothing below: people mean that it is true; else it is only a step
            want = (True,) if isinstance(value, bool) else (value,)
        else:
            shown = printed.getvalue() + ("" if value is None else repr(value) + "\n")
            if doctest.OutputChecker().check_output(want, shown, doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS):
                return ["kept", shown.strip()[:SHOWN]]
            try:
                want = (ast.literal_eval(want.strip()),)
            except (SyntaxError, ValueError, MemoryError, RecursionError):
                return ["unlike", shown.strip()[:SHOWN]]
    told = "kept" if value == want[0] else "broken" if _kind(value) is _kind(want[0]) else "unlike"
    return [told, repr(value)[:SHOWN]]
