"""Detects exits that a patch adds, for checks that trust the exit code.

Such a check would pass after an early successful exit, however few tests ran. An exit with a literal failure code is allowed.
Languages other than Python are judged by their lines.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator

from agent.checks import printed
from agent.contract.verdicts import Oracle
from agent.guard import Finding
from agent.guard.runner_access import Names
from agent.source.languages import GO, JVM, NODE, RUST, family

_PROSE = (".md", ".rst", ".txt", ".adoc", ".html", ".css", ".json", ".yml", ".yaml", ".toml", ".cfg", ".ini", ".lock", ".svg")
_EXIT = r"(?<![\w$-])(?P<exit>_*exit!?|_?Exit|quick_exit|[eE]xitProcess|reallyExit|exit_?[cC]ode|ExitCode|halt)(?![\w$-])"
# Replacing the process ends it with the other program's exit code; system calls can do anything.
_INSTEAD = r"|(?<![\w$])(?:f?exec[vl]\w*|CommandExt|posix_spawn\w*)(?![\w$])|/dev/(?:fd|std(?:out|err)|tty|pts)"
_WAYS = {
    # Here `exec` matches a regular expression or, at most, starts a child process.
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
_COMMENT = re.compile(r"\s*(#(?!\{)|//|/?\*|--|;|\")")
# For languages in which `;` and `*` can start code. A line that looks like a comment can end one that started above.
_C_COMMENT = re.compile(r"\s*(?://(?!.*(?:\*/|\$\{|[\"'`]))|/?\*(?!.*[(\[=]))")


def reports_only_an_exit_code(oracle: Oracle) -> bool:
    """Whether a check that must pass relies on its exit code.

    This includes runners whose output is parsed, and whole test files under Node, which pass by exiting with success.
    """
    return verdicts_are_printed(oracle) or any(
        (check.reader == "exit" and oracle.must_turn.get(check.name))
        or (check.reader == "javascript" and any("::" not in id_ for id_ in oracle.must_turn.get(check.name, ())))
        for check in oracle.checks
    )


def exiting_may_pass(oracle: Oracle) -> bool:
    """Whether code under test could make a check pass by exiting with success.

    Node's test processes count: they can imitate their runner's messages as long as nothing follows.
    """
    return reports_only_an_exit_code(oracle) or any(
        check.reader == "javascript" and oracle.must_turn.get(check.name) for check in oracle.checks
    )


def verdicts_are_printed(oracle: Oracle) -> bool:
    """Whether the results of a check that must pass are parsed from output that the code under test also writes to."""
    return any(check.reader in printed.READERS and oracle.must_turn.get(check.name) for check in oracle.checks)


def exit_findings(path: str, before: ast.Module, after: ast.Module, had_names: Names, names: Names) -> Iterator[Finding]:
    """Exits that the patch adds to Python code."""
    if more := Counter(_exits(after, names)) - Counter(_exits(before, had_names)):
        yield _violation(path, next(iter(more)))


def exit_lines(path: str, added: list[str], removed: list[str]) -> Iterator[Finding]:
    """Exits added to code in another language, or to Python that does not parse. A moved line is allowed."""
    if not path.casefold().endswith(_PROSE) and (more := Counter(_ways(path, added)) - Counter(_ways(path, removed))):
        yield _violation(path, next(iter(more)))


def _violation(path: str, text: str) -> Finding:
    return "way-out", f"{path} would end the process through `{text[:60]}`, and the check that runs it trusts the exit code"


def _exits(tree: ast.Module, names: Names) -> Iterator[str]:
    calls = {id(node.func): node for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for node in ast.walk(tree):
        name = names.of(node) or (node.id if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load) else "")
        if name in ("sys.exit", "exit", "quit", "builtins.exit", "builtins.quit") or name.rpartition(".")[2] == "SystemExit":
            call = calls.get(id(node))
            if call is None or not _fails(call):
                yield ast.unparse(call or node)


def _fails(call: ast.Call) -> bool:
    """Whether the call passes a literal failure code or a text. Code 256 would wrap to 0, success."""
    match call:
        case ast.Call(args=[ast.Constant(value=str())], keywords=[]):
            return True
        case ast.Call(args=[ast.Constant(value=int(code))], keywords=[]):
            return 0 < code < 256
    return False


def _ways(path: str, rows: list[str]) -> Iterator[str]:
    suffixes = family(path.casefold())
    pattern, comment = _WAYS[suffixes], _C_COMMENT if suffixes else _COMMENT
    for row in rows:
        for way in () if comment.match(row) else pattern.finditer(row):
            quoted = (
                way[0][0] not in '/"' and row[: way.start()][-1:] in ("'", '"', "`") and row[way.end() :][:1] in ("'", '"', "`")
            )
            is_asked_for = row[: way.start() - 1].rstrip().endswith("[")  # `process["exit"]`
            code = _FAILING.match(row, way.end()) if way["exit"] else None
            if (not quoted or is_asked_for) and not (code and 0 < int(code[1] or code[2]) < 256):
                yield row.strip()
                break
