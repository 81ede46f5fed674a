"""Stops JavaScript and TypeScript patches from replacing Node's assertions or listening to arbitrary process events.

Works without a parser: follows the assert module's names through plain declarations. Code that was there before is allowed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

Finding = tuple[str, str]  # rule, sentence

_MODULE = r"""['"`](?:node:)?assert(?:/strict)?['"`]"""
_LOADED = rf"(?:await\s+)?(?<![\w$])(?:\w+\.)?(?:require|import|getBuiltinModule)\s*\(\s*{_MODULE}\s*\)"
# One name, or several between braces, and the module that they come from.
_DECLARED = re.compile(rf"(?:(?<![\w$])([\w$]+)\s*(?::[^=;\n]{{0,100}})?|\{{([^{{}}]*)\}}\s*)=\s*\(?\s*{_LOADED}")
_IMPORTED = re.compile(rf"\bimport\b((?:(?!\bimport\b)[^'\"`;])*?)(?:\bfrom\s*|=\s*require\s*\(\s*){_MODULE}")
_ALIAS = re.compile(r"(?<![\w$.])([\w$]+)\s*=\s*([\w$]+)(?:\s*\.\s*strict)?\s*(?:[;,)\n]|$)")
_METHOD = (
    r"(?:strictEqual|deepEqual|deepStrictEqual|partialDeepStrictEqual|notStrictEqual|notDeepEqual|notDeepStrictEqual"
    r"|doesNotThrow|doesNotReject|doesNotMatch|ifError)"
)
_LISTENING = re.compile(
    r"\bprocess\s*\??\.\s*(?:on|once|off|emit|addListener|prepend(?:Once)?Listener|remove(?:All)?Listeners?|(?:rawL|l)isteners)"
    r"\s*(?:\?\.)?\s*\(\s*+(?!['\"`]\w+['\"`]\s*[,)])"
)


def node_findings(path: str, before: str, after: str) -> Iterator[Finding]:
    """Violations in one file that Node runs, from its text before and after the patch."""
    if _replaced(after) - _replaced(before):
        yield "under-test", f"{path} would replace the assertions of tests"
    if len(_LISTENING.findall(after)) > len(_LISTENING.findall(before)):
        yield "under-test", f"{path} would listen to process events by computed names"


def _replaced(text: str) -> Counter[str]:
    """Assignments to, and deletions of, members of the assert module."""
    names = "|".join(sorted(map(re.escape, _assertions(text))))
    owner = rf"(?:{_LOADED}" + (rf"|(?<![\w$.])(?:{names})(?![\w$]))" if names else ")")
    member = r"(?:\s*\??\.\s*[\w$]+|\s*(?:\?\.)?\[[^\]\n]*\])"
    pattern = re.compile(
        rf"{owner}{member}+\s*(?:\|\||&&|\?\?)?=(?![=>])|\bdelete\s+{owner}{member}"
        rf"|\b(?:Object|Reflect)\s*\.\s*(?:assign|set\w*|define\w+|delete\w+)\s*\(\s*{owner}"
        rf"|(?:\.\s*{_METHOD}|\[\s*['\"`]{_METHOD}['\"`]\s*\])\s*=(?![=>])"
    )
    return Counter(" ".join(found[0].split()) for found in pattern.finditer(text))


def _assertions(text: str) -> set[str]:
    """The names bound to the assert module or a part of it."""
    bindings = [each for found in _DECLARED.findall(text) for each in found] + _IMPORTED.findall(text)
    names = {name for each in bindings for name in re.findall(r"[\w$]+", each)} - {"as", "default", "type"}
    others: dict[str, list[str]] = {}
    for alias, name in _ALIAS.findall(text):
        others.setdefault(name, []).append(alias)
    waiting = list(names)
    while waiting:
        more = set(others.get(waiting.pop(), ())) - names
        names |= more
        waiting += more
    return names
