"""Rules for code in languages other than Python, judged by the lines that a patch adds.

There is no parser for these languages, so the rules are few: do not access the test runner, behave differently under test,
print its verdicts, replace assertions or built-ins, or hide errors. Code that was there before is allowed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePosixPath

from agent.contract.proposal import FileChange
from agent.edits.changes import added, removed
from agent.guard.node import node_findings
from agent.guard.rust_macros import macro_findings
from agent.guard.rust_tests import inline_findings
from agent.source.languages import GO, JVM, NODE, RUST, family

Finding = tuple[str, str]  # rule, sentence

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
    r"\bcatch\s*(?:\([^)]*\))?\s*\{\s*(?://[^\n]*\s*)?\}|\brecover\(\)|\bcatch_unwind\b"
    r"|\.catch\(\s*\(?\w*\)?\s*=>\s*(?:\{\s*\}|undefined|null)\s*\)"
)


def line_findings(edit: FileChange) -> Iterator[Finding]:
    """Violations in one file's change, worst first; none if the file is not code."""
    path, suffix = edit.path, PurePosixPath(edit.path).suffix.casefold()
    if not family(path.casefold()):
        return
    if edit.after is None:
        yield "deleted", f"it deletes {path}"
        return
    if suffix in RUST:
        yield from inline_findings(path, edit.before, edit.after)
        yield from macro_findings(path, edit.before or "", edit.after)
    if suffix in NODE:
        yield from node_findings(path, edit.before or "", edit.after)
    new, old = added((edit,)), removed((edit,))
    reaching = next((pattern for kin, pattern in _REACHING.items() if suffix in kin), None)
    if reaching is not None and _more(reaching, new, old):
        yield "under-test", f"{path} would access the test runner or behave differently under test"
    if suffix in NODE and _more(_REPLACING, new, old):
        yield "under-test", f"{path} would replace assertions or built-ins"
    if _more(_SPEAKING, new, old):
        yield "under-test", f"{path} would print the output of a test runner"
    if len(_SWALLOWING.findall(edit.after)) > len(_SWALLOWING.findall(edit.before or "")):
        yield "swallowed", f"{path} would hide an error"


def _more(pattern: re.Pattern[str], new: list[str], old: list[str]) -> bool:
    return sum(map(bool, map(pattern.search, new))) > sum(map(bool, map(pattern.search, old)))
