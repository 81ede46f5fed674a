"""What functions promise in their own docstrings, tried: `>>> f(1)` sessions and lines like `f(1) == 2`; inside the sandbox.

Only a hint for ranking: a change that keeps the promises goes before one that breaks them.
"""

import ast
import contextlib
import doctest
import io
import re

MOST = 40
_LINE = re.compile(
    r"^\s*(?:[-*]\s*)?(?P<call>(?P<name>[A-Za-z_]\w*)\(.*\))\s*"
    r"(?:==|=>|->|=|➞|→|➔|⇒|returns|should return|should be)\s*(?P<value>\S.*?)\s*$"
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
    for line in docstring.splitlines():
        match = None if ">>>" in line or len(line) > 500 else _LINE.match(line)
        if match is None or match.group("name") != name:
            continue
        try:
            ast.parse(match.group("call"), mode="eval")
            found.append((match.group("call"), (_literal(match.group("value")),)))
        except (SyntaxError, ValueError, MemoryError, RecursionError):
            continue
    return found[:MOST]


def _literal(text):
    """The literal that the text is or begins with ("[1, 2] # why", "5 because …")."""
    try:
        return ast.literal_eval(text)
    except (SyntaxError, ValueError):
        cut = re.split(r"\s+(?:#|//|because|since|as)\b|\s+#|\.$", text)[0]
        return ast.literal_eval(cut)


def kept(examples, namespace, limit):
    """How many of the examples come out as written."""
    checker, count, names = doctest.OutputChecker(), 0, dict(namespace)
    for source, want in examples:
        if limit.run(lambda: _holds(source, want, names, checker), 0.2, 1.0) is True:
            count += 1
    return count


def _holds(source, want, names, checker):
    if isinstance(want, tuple):
        return eval(source, names) == want[0]
    value, printed = None, io.StringIO()
    with contextlib.redirect_stdout(printed):
        try:
            value = eval(source, names)
        except SyntaxError:
            exec(source, names)
    shown = printed.getvalue() + ("" if value is None else repr(value) + "\n")
    return checker.check_output(want, shown, doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS) or (
        bool(want.strip()) and _equal(want, value)
    )


def _equal(want, value):
    try:
        return ast.literal_eval(want.strip()) == value
    except (SyntaxError, ValueError):
        return False
