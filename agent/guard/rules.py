"""Rules that every patch must follow. Pure; applied to each candidate before it runs.

The rules stop a patch from making checks pass by weakening the checks. They apply by file and, in configuration files that
several tools share, by key. `verify` covers everything that only a run can show.
"""

from __future__ import annotations

import ast
import builtins
import configparser
import fnmatch
import itertools
import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath
from xml.etree.ElementTree import Element, ParseError

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import fromstring

from agent.contract.proposal import Candidate, Edits, FileChange, is_search
from agent.contract.task import Policy
from agent.contract.verdicts import EXIT, Oracle
from agent.edits.answers import clean_path
from agent.edits.changes import EDITABLE, added, changed_lines
from agent.guard import EVALUATED, Finding
from agent.guard.deciding_files import deciding_file_findings
from agent.guard.exits import exiting_may_pass, reports_only_an_exit_code, verdicts_are_printed
from agent.guard.python import adds_only_comments, changes_only_requirements, code_findings, same_tree
from agent.guard.questions import await_findings, file_findings, functions
from agent.guard.requirements import lists_requirements, new_names, requirement_findings
from agent.guard.reversals import REVERSAL
from agent.source.ini import read_ini
from agent.source.languages import LANGUAGES
from agent.source.outline import Module, changed, parse
from agent.source.protected import BUILD_SETTINGS, CI_FILES, INSTRUCTIONS, LINT_SETTINGS, LOCKS, START_UP, TEST_SETTINGS
from agent.source.test_files import is_prose, is_snapshot, is_test

TESTS = "tests"  # the only rule that a policy can lift: the test itself may be wrong
# Rules that an honest change may break too: people are asked (`questions`), instead of refusing it.
ASKED = frozenset({
    "special-case", "data", "emptied", "swallowed", "weakened", "agrees", "less", "environment", "chance", "warnings", "types",
    "judges",
})  # fmt: skip
# Of these, the ones that a mutation may break by being wrong; the others find what was made to deceive.
_SLIPS = frozenset({"emptied", "swallowed", "weakened", "less"})
_UNREADABLE = "unreadable"  # refused; asked about if only the questions go too deep
_LINTERS = re.compile(r"\b(?:mypy|pyright|pytype|pyre|ty|ruff|flake8|pylint|eslint|tsc|clippy|vet|golangci-lint|bandit)\b")
# Findings about security: of ruff and bandit, gosec, and ESLint's plugins.
_SECURITY = re.compile(
    r"\b(?:S[1-7]\d\d|B[1-7]\d\d:|G[1-7]\d\d:|security/[\w-]+|no-unsanitized/\w+|no-eval|no-implied-eval)(?![\w-])"
)
_MAY_BE_NONE = frozenset({"None", "Optional", "Any", "object"})
# Files without a suffix that only people read, and the mark that a package has type annotations.
_NO_DATA = frozenset({"readme", "license", "licence", "copying", "notice", "authors", "changelog", "py.typed"})
_MOST_ASKED = 4  # questions about one change


_FILE = "Leave this file as it is, and repair the source code."
_RUN = "Repair what the code does for every caller; it must not know that it is tested, nor change how tests run or are judged."
# What a patch may do instead, by the rule that it breaks.
_INSTEAD = {
    TESTS: "Leave the tests as they are, and repair the code that they check.",
    "size": "Change only what the failing checks need.",
    "special-case": "Compute the result from the input, so that it is also right for inputs that no test has.",
    "swallowed": "Let the error be raised, and repair what causes it.",
    EVALUATED: "Compute the result without `eval`, `exec` or `compile`.",
    "silenced": "Repair what is reported instead of silencing it.",
    "weakened": "Keep every assertion, and repair what makes it fail.",
    "emptied": "Keep what is there, and change only what is wrong in it.",
    "dependency": "Use only what the project requires already, or what a failure reports as missing.",
    "path": "Name files by their path inside the repository.",
    REVERSAL: "Keep what the change is for, and repair what it broke.",
    "empty": "Answer with a change of the code.",
    **dict.fromkeys(("start-up", "protected", "ci", "settings", "lock", "instructions", "judge", "shadow", "binary"), _FILE),
    **dict.fromkeys(("under-test", "way-out", "agrees"), _RUN),
}


@dataclass(frozen=True, slots=True)
class Refusal:
    rule: str
    sentence: str

    @property
    def instead(self) -> str:
        """What a patch may do instead, as a sentence."""
        return _INSTEAD.get(self.rule, "Propose another change.")


_SECRET = re.compile(
    r"-----BEGIN [A-Z ]*PRIVATE KEY-----|\bgh[pousr]_[A-Za-z0-9]{30,}|\bgithub_pat_\w{30,}|\bAKIA[0-9A-Z]{16}\b"
    r"|\bsk-[A-Za-z0-9_-]{20,}|\bxox[abprs]-[\w-]{10,}|\bAIza[\w-]{35}\b"
)
_WORD = re.compile(r"\w+|[^\w\s]")
_BIDI = re.compile("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\u2060\ufeff]")


def refusal(candidate: Candidate, policy: Policy, oracle: Oracle, failing: str = "") -> Refusal | None:
    """The first rule that a patch breaks, or None. `failing` is the text of the failures, used to detect hard-coded answers."""
    edits = candidate.edits
    if not edits or all(edit.before == edit.after for edit in edits):
        return Refusal("empty", "it changes nothing")
    if len(edits) > policy.max_files:
        return Refusal("size", f"it changes {len(edits)} files; the limit is {policy.max_files}")
    if sum(len(edit.before or "") + len(edit.after or "") for edit in edits) > 4 * EDITABLE:
        return Refusal("size", "the files it changes are too large")
    for edit in edits:
        refused = _path_refusal(edit, candidate, policy) or _judge_refusal(edit, candidate, policy, oracle)
        refused = refused or _instruction_refusal(edit.path, candidate) or _text_refusal(edit)
        if refused is not None:
            return refused
    if (count := changed_lines(edits)) > policy.max_changed_lines:
        return Refusal("size", f"it changes {count} lines; the limit is {policy.max_changed_lines}")
    for rule, sentence in requirement_findings(edits, failing, names_are_known=candidate.rung == "tools"):
        return Refusal(rule, sentence)
    findings = _code_findings(edits, oracle, failing, asked=bool(policy.refuses))
    found = next((each for each in findings if _is_refused(each[0], policy)), None)
    return Refusal(*found) if found is not None else None


def questions(candidate: Candidate, oracle: Oracle, failing: str = "", tests: str = "") -> tuple[Finding, ...]:
    """What people have to look at in a change that no rule refuses. `tests` is the text of the failing tests' files."""
    if candidate.rung == "tools":
        return ()
    code = "\n".join(added(candidate.edits))
    files = (each for edit in candidate.edits for each in file_findings(edit, tests, code))
    found = [*files, *_code_findings(candidate.edits, oracle, failing, tests)]
    if candidate.edits and all(map(adds_only_comments, candidate.edits)):
        found.append(("types", "only comments change, which tools read and the program does not"))
    if candidate.edits and all(map(_is_data, candidate.edits)):
        found.append(("data", f"it changes {candidate.edits[0].path}, and no code"))
    if _checks_code(oracle) and (danger := _SECURITY.search(failing)):
        found.append(("types", f"a tool reports a danger ({danger[0]}): that it no longer does so is no proof that it is gone"))
    asked = {*(_SLIPS if is_search(candidate.rung) else ASKED), EVALUATED, _UNREADABLE}
    return tuple({sentence: (rule, sentence) for rule, sentence in found if rule in asked}.values())[:_MOST_ASKED]


def _is_data(edit: FileChange) -> bool:
    """Whether an existing file is neither code nor prose, and names no dependencies."""
    name = PurePosixPath(edit.path).name.casefold()
    is_known = edit.path.endswith(tuple(LANGUAGES)) or is_prose(edit.path) or name in _MANIFESTS or _matches(edit.path, LOCKS)
    return edit.before is not None and not is_known and name not in _NO_DATA and not lists_requirements(edit.path)


def _is_refused(rule: str, policy: Policy) -> bool:
    if rule == EVALUATED:
        return not policy.allow_evaluation
    return rule not in ASKED or rule in policy.refuses


def _checks_code(oracle: Oracle) -> bool:
    """Whether a type checker or a linter is among what fails."""
    failing = [check for check in oracle.checks if oracle.must_turn.get(check.name)]
    return any(check.reader == "findings" or _LINTERS.search(check.command) for check in failing)


def _code_findings(edits: Edits, oracle: Oracle, failing: str, tests: str = "", *, asked: bool = True) -> Iterator[Finding]:
    known = f"{failing}\n{tests}"
    no_exits, no_verdicts = exiting_may_pass(oracle), verdicts_are_printed(oracle)
    is_typed = _checks_code(oracle)
    is_linted = is_typed or any(not c.runs_tests or EXIT in oracle.must_turn.get(c.name, ()) for c in oracle.checks)
    for edit in edits:
        if is_test(edit.path):
            continue
        try:
            yield from code_findings(
                edit,
                known,
                no_exits=no_exits,
                no_verdicts=no_verdicts,
                is_typed=is_typed,
                is_linted=is_linted,
                asked=asked,
            )
        except (RecursionError, MemoryError):
            yield _UNREADABLE, f"{edit.path} is nested too deeply to analyze"
    if asked:
        yield from await_findings(edits, failing)


def doubts(candidate: Candidate, oracle: Oracle) -> tuple[str, ...]:
    """Reasons to doubt a repair that breaks no rule, one clause each."""
    weak = ["the check reports only an exit code"] if reports_only_an_exit_code(oracle) else []
    if candidate.rung == "patterns" and all(map(_takes_a_call_away, candidate.edits)):
        weak.append("it only takes a call away, and people forget code more often than they write too much")
    if candidate.rung == "patterns" and (names := [name for edit in candidate.edits for name in _expected_none(edit)]):
        weak.append(
            f"it expects that `{names[0]}` may be None, which the annotation excludes: the None may come from elsewhere"
        )
    if candidate.rung == "patterns" and sum(map(_functions_changed, candidate.edits)) > 1:
        weak.append("it changes two functions at once, and among thousands of such pairs some pass by chance")
    return (*weak, *(f"it adds `{name}` as a new dependency" for name in new_names(candidate.edits)))


def _trees(edit: FileChange) -> tuple[ast.Module, ast.Module] | None:
    """Before and after the change; None if the file is not Python, new or deleted."""
    if not edit.path.endswith(".py") or edit.before is None or edit.after is None:
        return None
    before, after = parse(edit.before), parse(edit.after)
    return (before, after) if before is not None and after is not None else None


def _functions_changed(edit: FileChange) -> int:
    return len(changed(Module(edit.path, edit.before or ""), Module(edit.path, edit.after or "")))


def _takes_a_call_away(edit: FileChange) -> bool:
    """Whether a Python file loses a call, and gains nothing."""
    if (trees := _trees(edit)) is None:
        return False
    before, after = ([*_WORD.findall(text or "")] for text in (edit.before, edit.after))
    rest = iter(before)
    is_less = all(any(word == other for other in rest) for word in after if word != "pass")
    calls, left = (sum(isinstance(node, ast.Call) for node in ast.walk(tree)) for tree in trees)
    return is_less and left < calls


def _expected_none(edit: FileChange) -> Iterator[str]:
    """The parameters of a Python file that are newly compared with None, although their annotations name only other types."""
    if (trees := _trees(edit)) is None:
        return
    before, after = (dict(functions(tree)) for tree in trees)
    for name, function in after.items():
        new = _compared_with_none(function) - _compared_with_none(before.get(name, function))
        given = function.args
        places = [*given.posonlyargs, *given.args]
        defaults = [*itertools.repeat(None, len(places) - len(given.defaults)), *given.defaults, *given.kw_defaults]
        for argument, default in zip((*places, *given.kwonlyargs), defaults, strict=True):
            if default is not None and ast.unparse(default) == "None":
                continue
            said = _WORD.findall(ast.unparse(argument.annotation)) if argument.annotation is not None else []
            if argument.arg in new and any(hasattr(builtins, word) for word in said) and _MAY_BE_NONE.isdisjoint(said):
                yield argument.arg


def _compared_with_none(function: ast.AST) -> Counter[str]:
    found = (
        node for node in ast.walk(function) if isinstance(node, ast.Compare) and ast.unparse(node.comparators[0]) == "None"
    )
    return Counter(node.left.id for node in found if isinstance(node.left, ast.Name))


def _path_refusal(edit: FileChange, candidate: Candidate, policy: Policy) -> Refusal | None:
    path = clean_path(edit.path)
    if path is None or path != edit.path:
        return Refusal("path", f"{edit.path!r} is not a path inside the repository")
    if _BIDI.search(path) or not path.isprintable():
        return Refusal("path", f"{edit.path!r} contains invisible characters")
    for patterns, rule, why in (
        (START_UP, "start-up", "changes how Python or git starts"),
        (policy.protected, "protected", "is protected by the repository's configuration"),
        (CI_FILES, "ci", "is part of the CI configuration"),
        (LINT_SETTINGS, "settings", "configures the tools that check the code"),
        (BUILD_SETTINGS, "settings", "configures the build"),
    ):
        if _matches(path, patterns):
            return Refusal(rule, f"{path} {why}")
    if _matches(path, LOCKS) and candidate.rung != "tools":
        return Refusal("lock", f"only its package manager can write {path}")
    if not policy.allow_test_edits:
        is_the_tools_own = candidate.rung == "tools" and (same_tree(edit) or (policy.allow_snapshots and is_snapshot(path)))
        if is_test(path) and not is_the_tools_own:
            return Refusal(TESTS, f"{path} is a test")
        if _matches(path, TEST_SETTINGS):
            return Refusal(TESTS, f"{path} is test configuration")
    return _key_refusal(edit, path)


def _instruction_refusal(path: str, candidate: Candidate) -> Refusal | None:
    """Files that make other programs act, which no check notices. The project's own fixers may write them."""
    if candidate.rung == "tools":
        return None
    if PurePosixPath(path).suffix not in LANGUAGES and _matches(path, INSTRUCTIONS):
        return Refusal("instructions", f"{path} tells people or other programs what to do with the repository")
    if any(part.startswith(".") or part.casefold() == "git~1" for part in PurePosixPath(path).parts):
        return Refusal("instructions", f"{path} is hidden; such files configure programs")
    return None


def _judge_refusal(edit: FileChange, candidate: Candidate, policy: Policy, oracle: Oracle) -> Refusal | None:
    """Skips manifests that define commands: `_key_refusal` judges them by key."""
    for rule, sentence in deciding_file_findings(edit, oracle):
        is_manifest = rule == "judge" and PurePosixPath(edit.path).name.casefold() in ("package.json", "tox.ini")
        is_lifted = (
            is_manifest or (rule == TESTS and policy.allow_test_edits) or (candidate.rung == "tools" and same_tree(edit))
        )
        if not is_lifted:
            return Refusal(rule, sentence)
    return None


def _key_refusal(edit: FileChange, path: str) -> Refusal | None:
    """Judges shared configuration files by key: only dependencies may change."""
    name = PurePosixPath(path).name.casefold()
    if name == "setup.py" and not changes_only_requirements(edit):
        return Refusal("settings", f"a patch can change only the requirements in {path}")
    if name not in _MANIFESTS:
        return None
    read, allowed = _MANIFESTS[name]
    try:
        before, after = read(edit.before or ""), read(edit.after or "")
    except (ValueError, configparser.Error, RecursionError) as error:
        return Refusal("settings", f"{path} cannot be parsed before or after the change ({type(error).__name__})")
    changed = sorted(key for key in before.keys() | after.keys() if before.get(key) != after.get(key))
    for key in changed:
        if not any(fnmatch.fnmatchcase(key, pattern) or fnmatch.fnmatchcase(key, f"{pattern}.*") for pattern in allowed):
            about_tests = re.match(r"tool\.(pytest|coverage|tox|nox)|tool:pytest|pytest|testenv|tox|coverage", key)
            return Refusal(TESTS if about_tests else "settings", f"a patch can change only dependencies in {path}, not `{key}`")
    return None


def _toml_keys(text: str) -> dict[str, object]:
    return dict(_flat("", tomllib.loads(text)))


def _json_keys(text: str) -> dict[str, object]:
    table = json.loads(text or "{}")
    if not isinstance(table, dict):
        raise ValueError("not an object")
    return dict(_flat("", table))


def _go_keys(text: str) -> dict[str, object]:
    """Directive → its lines, in a block or single."""
    found: dict[str, list[str]] = {}
    block = ""
    for line in (re.sub(r"//.*", "", row).strip() for row in text.splitlines()):
        word, _, rest = line.partition(" ")
        if block and line == ")":
            block = ""
        elif block or rest.strip() == "(":
            found.setdefault(block or word, []).extend([line] if block else [])
            block = block or word
        elif line:
            found.setdefault(word, []).append(rest)
    return dict(found)


def _pom_keys(text: str) -> dict[str, object]:
    """Path of an element → its texts."""
    found: dict[str, list[str]] = {}

    def walk(element: Element, way: str) -> None:
        name = element.tag.rpartition("}")[2]
        here = f"{way}/{name}" if way else name
        end = here.find("/dependency/")
        found.setdefault(here if end < 0 else here[: end + len("/dependency")], []).append((element.text or "").strip())
        for below in element:
            walk(below, here)

    try:
        walk(fromstring(text or "<project/>"), "")
    except (ParseError, DefusedXmlException) as error:
        raise ValueError("not valid XML") from error
    return dict(found)


def _flat(prefix: str, table: Mapping[str, object]) -> Iterable[tuple[str, object]]:
    for key, value in table.items():
        name = f"{prefix}.{key}" if prefix else key
        if isinstance(value, dict) and value:
            yield from _flat(name, value)
        else:
            yield name, value


def _ini_keys(text: str) -> dict[str, object]:
    parser = read_ini(text)
    return {f"{section}.{key}": value for section in parser.sections() for key, value in parser.items(section)}


# What a patch can change in shared configuration files: their reader, and globs of keys.
_MANIFESTS: Mapping[str, tuple[Callable[[str], dict[str, object]], tuple[str, ...]]] = {
    "pyproject.toml": (_toml_keys, (
        "project.dependencies", "project.optional-dependencies", "project.requires-python", "dependency-groups",
        "tool.poetry.dependencies", "tool.poetry.group.*.dependencies", "tool.poetry.dev-dependencies",
        "tool.uv.constraint-dependencies",
    )),
    "setup.cfg": (_ini_keys, (
        "options.install_requires", "options.extras_require", "options.python_requires", "options.package_data",
    )),
    "tox.ini": (_ini_keys, ("testenv*.deps",)),
    "pipfile": (_toml_keys, ("packages", "dev-packages", "requires")),
    "package.json": (_json_keys, (
        "dependencies", "devDependencies", "peerDependencies", "optionalDependencies", "engines", "overrides", "resolutions",
    )),
    "cargo.toml": (_toml_keys, (
        "dependencies", "dev-dependencies", "build-dependencies", "target.*dependencies", "workspace.dependencies",
    )),
    "go.mod": (_go_keys, ("require",)),
    "pom.xml": (_pom_keys, ("project/dependencies/dependency",)),
}  # fmt: skip


def _text_refusal(edit: FileChange) -> Refusal | None:
    if "\0" in (edit.after or ""):
        return Refusal("binary", f"{edit.path} would become a binary file")
    new = "\n".join(added((edit,)))
    if _SECRET.search(new):
        return Refusal("secret", f"{edit.path} would contain what looks like a secret")
    if _BIDI.search(new):
        return Refusal("hidden", f"{edit.path} would contain invisible or bidirectional control characters")
    return None


def _matches(path: str, patterns: Iterable[str]) -> bool:
    """Whether a glob matches the whole path or, without a slash, the file name. Case is ignored, as on some file systems."""
    low, name = path.lower(), PurePosixPath(path).name.lower()
    return any(
        fnmatch.fnmatchcase(low, pattern.lower())
        or fnmatch.fnmatchcase(low, f"*/{pattern.lower()}")
        or ("/" not in pattern and fnmatch.fnmatchcase(name, pattern.lower()))
        for pattern in patterns
    )
