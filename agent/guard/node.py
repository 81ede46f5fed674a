"""What code that Node runs may not do to the module of assertions and to the events of its process, wherever on its lines.

No parser: the names that the module goes by are followed through plain declarations. What was so before is no offence.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

Finding = tuple[str, str]  # rule, sentence

_MODULE = r"""['"`](?:node:)?assert(?:/strict)?['"`]"""
_LOADED = rf"(?:await\s+)?(?<![\w$])(?:\w+\.)?(?:require|import|getBuiltinModule)\s*\(\s*{_MODULE}\s*\)"
# A name or several between braces, and the module that they are taken from.
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
    """Offences of one file of code that Node runs, as it was and as it would be."""
    if _replaced(after) - _replaced(before):
        yield "under-test", f"{path} would replace what tests decide with"
    if len(_LISTENING.findall(after)) > len(_LISTENING.findall(before)):
        yield "under-test", f"{path} would listen to events of its process by names that are made up while it runs"


def _replaced(text: str) -> Counter[str]:
    """What is given to, or taken from, a member of the module of assertions."""
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
    """The names that the module of assertions, or a part of it, goes by."""
    told = [each for found in _DECLARED.findall(text) for each in found] + _IMPORTED.findall(text)
    names = {name for each in told for name in re.findall(r"[\w$]+", each)} - {"as", "default", "type"}
    others: dict[str, list[str]] = {}
    for alias, name in _ALIAS.findall(text):
        others.setdefault(name, []).append(alias)
    waiting = list(names)
    while waiting:
        more = set(others.get(waiting.pop(), ())) - names
        names |= more
        waiting += more
    return names
