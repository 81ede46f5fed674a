"""Rules for code in languages other than Python, judged by the lines that a patch adds.

There is no parser for these languages, so the rules are few: added code must not access the test runner, behave differently
under test, print verdicts, replace assertions or built-ins, or hide errors. Code that was there before is allowed.

If verdicts are parsed from the output, each printed line is judged by its start, which must be neither the start of a verdict
nor a placeholder. A placeholder later in the line can still expand to further lines. These alone cannot make a check pass,
because the command must also exit with success (`agent/guard/exits.py`). The names of Node's assert module are followed through
plain declarations.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from agent.contract.proposal import FileChange
from agent.edits.changes import added, removed
from agent.guard import Finding
from agent.guard.exits import exit_lines
from agent.guard.rust import rust_findings
from agent.source.languages import GO, JVM, NODE, RUST, family

_BUILT_IN = (
    r"(?:Object|Array|String|Number|Boolean|Function|Promise|Map|Set|Symbol|Error|RegExp|JSON|Reflect|Math|Date|console)"
)
_REACHING = {
    NODE: re.compile(
        r"""['"`](?:node:test|vitest|@vitest/[\w-]+|jest|@jest/[\w/-]+|jest-[\w-]+|mocha|chai|sinon|ava|tap)(?:/[\w./-]+)?['"`]"""
        r"|\b(?:VITEST|JEST_WORKER_ID|NODE_TEST_CONTEXT|NODE_OPTIONS|SELFHEAL\w*)\b|import\.meta\.vitest"
        r"""|NODE_ENV\b.*['"`]test['"`]|\bprocess\.(?:env\[|send\b|binding\b|dlopen\b|kill\b|abort\b|_\w+|execArgv\b|mainModule\b)"""
        r"""|\bprocess\.\w+\(\s*['"`](?:uncaughtException|unhandledRejection|message|exit|beforeExit)\b|\bprocess\.argv\[1\]"""
        r"|\b(?:globalThis|global|window)\s*(?:\.|\[\s*['\"`])(?:expect|test|it|describe|assert|jest|vi|process)\b"
        r"|\brequire\.(?:cache|main)\b|\bmodule\.parent\b|/proc/|/dev/(?:fd|std|tty|pts)|prepareStackTrace"
        r"""|['"`](?:node:)?v8['"`]|\[\s*['"`]\w*['"`]\s*\+\s*['"`]"""
    ),
    GO: re.compile(
        r'\btesting\.Testing\(|"testing"|flag\.Lookup\("test|os\.Args\b.*test|/proc/|runtime\.Callers?\b|debug\.Stack\b'
        r'|\bgo:(?:linkname|cgo_\w+)|^\s*(?:import\s+)?"C"\s*$'
    ),
    RUST: re.compile(
        r"/proc/|\bBacktrace\b|env!?\(\s*\"(?:CARGO_\w*TEST|NEXTEST\w*|RUST_TEST\w*)|set_hook|__rust_|\bno_mangle\b|LD_PRELOAD"
        r"|\blink_(?:section|name)\b|\bexport_name\b|\b(?:global_|naked_)?asm!"
    ),
    JVM: re.compile(
        r"\b(?:org\.junit|org\.testng|junit\.framework|org\.mockito|surefire)\b|getStackTrace|StackWalker|/proc/|\bUnsafe\b"
        r"|setAccessible"
    ),
}  # fmt: skip
_REPLACING = re.compile(
    r"(?<!const )(?<!let )(?<!var )\b(?:assert|expect|chai)(?:\.\w+)*\s*=(?![=>])"
    rf"|\b{_BUILT_IN}(?:\.prototype)?(?:\.\w+|\[[^\]]+\])\s*=(?![=>])"
    r"|\b(?:Object|Reflect)\.(?:define\w+|assign|setPrototypeOf)"
    rf"\(\s*(?:{_BUILT_IN}|assert|globalThis|process)\b"
)
_SPEAKING = re.compile(
    r"\.\.\. ok\b|test result: ok|--- PASS|[\"']Action[\"']\\?[\"']?\s*:|Tests run:|BUILD SUCCESS|<<< (?:FAILURE|ERROR)"
)
_SWALLOWING = re.compile(
    r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*(?://[^\n]*\s*)?\}|\brecover\(\)|\bcatch_unwind\b|\b(?:allSettled|Promise\s*\.\s*any)\("
    r"|\.catch\(\s*\(?\w*\)?\s*=>\s*(?:\{\s*\}|undefined|null)\s*\)"
)
_QUIETER = re.compile(
    r"\b(?:setMaxListeners|defaultMaxListeners|noDeprecation|traceDeprecation|NODE_NO_WARNINGS)\b|--no-(?:warn|deprec)"
)
_LINES = r'(?:[^"\\]|\\.)*?\\n'  # earlier lines of the same text
_BEGINS = rf'"(?:{_LINES})?(?:\s|\\t|\\r)*'
_PRINTING = {
    RUST: re.compile(
        rf"\be?print(?:ln)?\s*!\s*[(\[{{]\s*(?:{_BEGINS}(?:\{{(?!\{{)|test\b|Running\b|Doc-tests\b|----)|[^\s\")\]}}])"
        r"|\bstd(?:out|err)\s*\(\s*\)(?!\s*\.\s*flush\b)|\bprint(?:ln)?\s*!\s*[(\[{]\s*b?r#*\""
    ),
    GO: re.compile(
        rf"\bfmt\s*\.\s*Print(?:f|ln)?\s*\(\s*(?:{_BEGINS}(?:%(?!%)|\{{|---|===|PASS\b|ok\b|\\x|\\u|\\[0-7]|\")|[^\s\")])"
        r"|\bos\s*\.\s*Std(?:out|err)\b"
    ),
    JVM: re.compile(
        rf"(?:\bSystem\s*\.\s*(?:out|err)\s*\.\s*|(?<![\w.]))print(?:f|ln)?\s*\(\s*"
        rf"(?:{_BEGINS}(?:%(?!%)|\$|Tests run|Running\b|\[|\")|[^\s\")])"
        r"|\bSystem\s*\.\s*(?:out|err)\b(?!\s*\.\s*(?:print|flush))"
    ),
}
_MODULE = r"""['"`](?:node:)?assert(?:/strict)?['"`]"""
_LOADED = rf"(?:await\s+)?(?<![\w$])(?:\w+\.)?(?:require|import|getBuiltinModule)\s*\(\s*{_MODULE}\s*\)"
# One name, or several in braces, and the module that they come from.
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


def line_findings(edit: FileChange, *, no_exits: bool = False, no_verdicts: bool = False) -> Iterator[Finding]:
    """Violations in one file's change, worst first. Files that are not code are judged for exits only.

    `no_exits`: exiting with success could make a check pass; `no_verdicts`: printing could.
    """
    path, kin = edit.path, family(edit.path.casefold())
    before, after, new, old = edit.before or "", edit.after or "", added((edit,)), removed((edit,))
    if no_exits:
        yield from exit_lines(path, new, old)
    # Replacing one print with another is allowed.
    if no_verdicts and kin in _PRINTING and _found(_PRINTING[kin], "\n".join(new)) > _found(_PRINTING[kin], "\n".join(old)):
        yield "under-test", f"{path} would print text that looks like a test verdict"
    if not kin:
        return
    if kin == RUST:
        yield from rust_findings(path, before, after)
    if kin == NODE:
        if _replaced(after) - _replaced(before):
            yield "under-test", f"{path} would replace the assertions of tests"
        if _more(_QUIETER, new, old):
            yield "warnings", f"{path} would change which warnings are shown"
        if _found(_LISTENING, after) > _found(_LISTENING, before):
            yield "under-test", f"{path} would listen to process events by computed names"
    if _more(_REACHING[kin], new, old):
        yield "under-test", f"{path} would access the test runner or behave differently under test"
    if kin == NODE and _more(_REPLACING, new, old):
        yield "under-test", f"{path} would replace assertions or built-ins"
    if _more(_SPEAKING, new, old):
        yield "under-test", f"{path} would print the output of a test runner"
    if _found(_SWALLOWING, after) > _found(_SWALLOWING, before):
        yield "swallowed", f"{path} would hide an error"


def _found(pattern: re.Pattern[str], text: str) -> int:
    return len(pattern.findall(text))


def _more(pattern: re.Pattern[str], new: list[str], old: list[str]) -> bool:
    return sum(map(bool, map(pattern.search, new))) > sum(map(bool, map(pattern.search, old)))


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
