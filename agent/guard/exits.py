"""Ways out of the process with a code of its own choosing, where a red check believes how it ends.

Nothing then says how far the tests came, and so a change may add no way out, in whatever language. One whose code is written
down and means failure is no offence: it makes nothing green. Languages other than Python are judged by their lines.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from agent.contract.verdicts import Oracle
from agent.guard.runner_access import Names
from agent.source.languages import GO, JVM, NODE, RUST, family

Finding = tuple[str, str]  # rule, sentence

_PROSE = (".md", ".rst", ".txt", ".adoc", ".html", ".css", ".json", ".yml", ".yaml", ".toml", ".cfg", ".ini", ".lock", ".svg")
_EXIT = r"(?<![\w$-])(?P<exit>_*exit!?|_?Exit|quick_exit|[eE]xitProcess|reallyExit|exit_?[cC]ode|ExitCode|halt)(?![\w$-])"
# Another program in the place of this one ends with that one's code; below the runtime there is every way out.
_INSTEAD = r"|(?<![\w$])(?:f?exec[vl]\w*|CommandExt|posix_spawn\w*)(?![\w$])|/dev/(?:fd|std(?:out|err)|tty|pts)"
_WAYS = {
    # `exec` is a search for a pattern here, and starts a child at most.
    NODE: re.compile(_EXIT + r"|(?<![\w$.])process\s*(?:\?\.)?\[|=\s*process\s*(?:[;,)]|$)|\bReflect\.\w+\(\s*process\b"),
    RUST: re.compile(
        # With an argument it is a query: `.exec(&db)`.
        _EXIT + _INSTEAD + r"|(?<!\w)exec(?!\w)(?!\s*\(\s*[&*\w\"])|(?<!\w)(?:libc|nix|rustix)(?!\w)(?=\s*(?:::|as|;))"
        r"|(?:from_raw_fd|FromRawFd|from_raw_handle|syscall!?)(?!\w)|\bextern\s*(?:\"[^\"]*\"\s*)?(?:\{|$)"
    ),
    GO: re.compile(
        _EXIT + r"|\"(?:syscall|golang\.org/x/sys/\w+)\"|\b(?:syscall|unix)\.(?:Exec|Kill|\w*Syscall\w*|Write|Dup\d?|\w+Exec)\b"
        r"|\bos\.NewFile\b|/dev/(?:fd|std(?:out|err)|tty|pts)"
    ),
    JVM: re.compile(_EXIT + r"|\bFileDescriptor\b|\bSignal\.raise\b|/dev/(?:fd|std(?:out|err)|tty|pts)"),
    (): re.compile(_EXIT + _INSTEAD + r"|(?<![\w$.>-])exec(?![\w$-])"),
}
_FAILING = re.compile(r"\s*\(\s*(\d+)\s*\)|\s*=?\s*\b(\d+)\s*(?:[;}#]|$)")
_REMARK = re.compile(r"\s*(#(?!\{)|//|/?\*|--|;|\")")
# Where `;` and `*` may begin code; a line that looks like a remark may end a text or a remark that began above it.
_REMARK_OF_C = re.compile(r"\s*(?://(?!.*(?:\*/|\$\{|[\"'`]))|/?\*(?!.*[(\[=]))")


def tells_an_exit_code_alone(oracle: Oracle) -> bool:
    """Of some check that must turn green, or little more: of runners whose output is all that is read, and of a whole file of
    tests that Node runs, which has passed where it ends well.
    """
    return verdicts_are_printed(oracle) or any(
        (check.reader == "exit" and oracle.must_turn.get(check.name))
        or (check.reader == "javascript" and any("::" not in id_ for id_ in oracle.must_turn.get(check.name, ())))
        for check in oracle.checks
    )


def leaving_may_pass(oracle: Oracle) -> bool:
    """Whether code under test could make some check green by what it tells and then leaving well: a process of Node's tests can
    speak its runner's own words as long as nothing comes after them.
    """
    return tells_an_exit_code_alone(oracle) or any(
        check.reader == "javascript" and oracle.must_turn.get(check.name) for check in oracle.checks
    )


def verdicts_are_printed(oracle: Oracle) -> bool:
    """Of some check that must turn green, where code under test prints too."""
    return any(check.reader in ("go", "rust", "java") and oracle.must_turn.get(check.name) for check in oracle.checks)


def exit_findings(path: str, before: ast.Module, after: ast.Module, had_names: Names, names: Names) -> Iterator[Finding]:
    """Of Python code: what the change adds, wherever it stands."""
    if more := Counter(_exits(after, names)) - Counter(_exits(before, had_names)):
        yield _offence(path, next(iter(more)))


def exit_lines(path: str, added: list[str], removed: list[str]) -> Iterator[Finding]:
    """Of code in another language, or of Python that cannot be parsed. A line that is only moved is no offence."""
    if not path.casefold().endswith(_PROSE) and (more := Counter(_ways(path, added)) - Counter(_ways(path, removed))):
        yield _offence(path, next(iter(more)))


def _offence(path: str, text: str) -> Finding:
    return "way-out", f"{path} would leave the process by `{text[:60]}`, and its check believes how it ends"


def _exits(tree: ast.Module, names: Names) -> Iterator[str]:
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name | ast.Attribute | ast.Call) and _leaves(node, names):
            call = calls.get(id(node))
            if call is None or not _fails(call):
                yield ast.unparse(call or node)


def _leaves(node: ast.Name | ast.Attribute | ast.Call, names: Names) -> bool:
    name = names.of(node) or (node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else "")
    return name in ("sys.exit", "exit", "quit", "builtins.exit", "builtins.quit") or name.rpartition(".")[2] == "SystemExit"


def _fails(call: ast.Call) -> bool:
    """Called with a code, or a text, that is written down and means failure; 256 would be success again."""
    match call:
        case ast.Call(args=[ast.Constant(value=str())], keywords=[]):
            return True
        case ast.Call(args=[ast.Constant(value=int(code))], keywords=[]):
            return 0 < code < 256
    return False


def _ways(path: str, rows: list[str]) -> Iterator[str]:
    kin = family(path.casefold())
    pattern, remark = _WAYS[kin], _REMARK_OF_C if kin else _REMARK
    for row in rows:
        for way in () if remark.match(row) else pattern.finditer(row):
            quoted = (
                way[0][0] not in '/"' and row[: way.start()][-1:] in ("'", '"', "`") and row[way.end() :][:1] in ("'", '"', "`")
            )
            is_asked_for = row[: way.start() - 1].rstrip().endswith("[")  # `process["exit"]`
            code = _FAILING.match(row, way.end()) if way["exit"] else None
            if (not quoted or is_asked_for) and not (code and 0 < int(code[1] or code[2]) < 256):
                yield row.strip()
                break
