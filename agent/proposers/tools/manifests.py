"""Adds a dependency to a manifest, as text: order, quotes, indentation and comments stay. Pure.

Knows pyproject.toml (project, extras, groups, Poetry), requirements files and setup.cfg. The result is parsed again: nothing
but the one requirement may differ.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import PurePosixPath

from agent.ci.project.tables import read_toml, table_at
from agent.edits.changes import lines
from agent.source.distributions import named
from agent.source.ini import read_valid_ini

DEVELOPMENT = ("test", "tests", "testing", "dev", "develop", "development", "ci")
_REQUIREMENTS = re.compile(
    r"^(?:requirements/)?(?:[\w.-]*[-_.])?(?:requirements|base|main|test|tests|testing|dev|ci)[\w.-]*\.(?:txt|in)$"
)


@dataclass(frozen=True, slots=True)
class RequirementList:
    """One list of requirements in a manifest."""

    path: str
    table: str  # "project.dependencies", "dependency-groups.dev"; "" for a requirements file
    names: frozenset[str]  # normalised
    for_tests: bool

    @property
    def label(self) -> str:
        return f"`{self.table}` of {self.path}" if self.table else self.path


def is_manifest(path: str) -> bool:
    return path in ("pyproject.toml", "setup.cfg") or _REQUIREMENTS.match(path) is not None


def requirement_lists(texts: Mapping[str, str]) -> list[RequirementList]:
    """The requirement lists of these manifests (texts by path); an unreadable manifest has none."""
    found: list[RequirementList] = []
    for path, text in texts.items():
        if path == "pyproject.toml":
            found += _toml_lists(path, text)
        elif path == "setup.cfg":
            found += _ini_lists(path, text)
        else:
            names = frozenset(name for row in text.splitlines() if (name := _listed(row)))
            stem = PurePosixPath(path).name.partition(".")[0]
            found.append(RequirementList(path, "", names, any(word in DEVELOPMENT for word in re.split(r"[-_.]", stem))))
    compiled = {target.path for target in found}
    # requirements.txt is compiled from requirements.in: only the latter is edited.
    return [target for target in found if not (target.path.endswith(".txt") and target.path[:-4] + ".in" in compiled)]


def choose(found: list[RequirementList], distribution: str, *, for_tests: bool) -> list[RequirementList]:
    """The lists for an undeclared dependency, likeliest first; empty if an applicable list already has it."""
    name = named(distribution)
    if any(name in target.names for target in found if for_tests or not target.for_tests):
        return []
    fitting = [target for target in found if target.for_tests == for_tests]
    return fitting or found


def add(text: str, target: RequirementList, distribution: str) -> str | None:
    """The manifest with one more requirement; None if that cannot be done safely."""
    if target.path == "pyproject.toml":
        made = _in_toml(text, target.table, distribution)
    elif target.path == "setup.cfg":
        made = _in_ini(text, target.table, distribution)
    else:
        made = _in_list(text, distribution)
    return made if made is not None and _is_only_change(text, made, target, distribution) else None


def _toml_lists(path: str, text: str) -> Iterator[RequirementList]:
    content = read_toml(text) or {}
    project, groups = table_at(content, "project"), table_at(content, "dependency-groups")
    if "dependencies" in project:
        yield _requirement_list(path, "project.dependencies", project["dependencies"], for_tests=False)
    for kind, table in (
        ("project.optional-dependencies", table_at(project, "optional-dependencies")),
        ("dependency-groups", groups),
    ):
        for name, value in table.items():
            if name in DEVELOPMENT:
                yield _requirement_list(path, f"{kind}.{name}", value, for_tests=True)
    poetry = table_at(content, "tool", "poetry")
    if "dependencies" in poetry:
        yield _requirement_list(path, "tool.poetry.dependencies", list(table_at(poetry, "dependencies")), for_tests=False)
    for name, group in table_at(poetry, "group").items():
        if name in DEVELOPMENT and isinstance(group, dict):
            inner = list(table_at(group, "dependencies"))
            yield _requirement_list(path, f"tool.poetry.group.{name}.dependencies", inner, for_tests=True)


def _ini_lists(path: str, text: str) -> Iterator[RequirementList]:
    parser = read_valid_ini(text)
    if parser.has_option("options", "install_requires"):
        value = parser.get("options", "install_requires").splitlines()
        yield _requirement_list(path, "options.install_requires", value, for_tests=False)
    for name in parser.options("options.extras_require") if parser.has_section("options.extras_require") else ():
        if name in DEVELOPMENT:
            value = parser.get("options.extras_require", name).splitlines()
            yield _requirement_list(path, f"options.extras_require.{name}", value, for_tests=True)


def _requirement_list(path: str, table: str, value: object, *, for_tests: bool) -> RequirementList:
    items = [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
    return RequirementList(path, table, frozenset(name for item in items if (name := named(item))), for_tests)


def _in_toml(text: str, table: str, distribution: str) -> str | None:
    if table.startswith("tool.poetry"):
        return _in_poetry(text, table, distribution)
    header, _, key = table.rpartition(".")
    section = _section(text, rf"\[\s*{re.escape(header)}\s*\]")
    if section is None:
        return None
    opened = re.search(rf"(?m)^[ \t]*[\"']?{re.escape(key)}[\"']?[ \t]*=[ \t]*\[", text[section[0] : section[1]])
    if opened is None:
        return None
    start = section[0] + opened.end()
    items = list(_strings(text, start))
    close = _close(text, items[-1][1] if items else start)
    if close is None:
        return None
    at = next((n for n, (a, b) in enumerate(items) if named(text[a + 1 : b - 1]) > named(distribution)), len(items))
    names = [named(text[a + 1 : b - 1]) for a, b in items]
    at = at if names == sorted(names) else len(items)
    quote = text[items[0][0]] if items else '"'
    new = f"{quote}{distribution}{quote}"
    if not items:
        return text[:start] + new + text[close:] if not text[start:close].strip() else None
    first = text.rfind("\n", 0, items[0][0]) + 1
    indent = text[first : items[0][0]] if not text[first : items[0][0]].strip() else "    "
    end = "\r\n" if "\r\n" in text else "\n"
    is_one_line, last = "\n" not in text[start:close], items[-1][1]
    if at < len(items):
        behind = items[at][0]
        is_in_row = bool(text[text.rfind("\n", 0, behind) + 1 : behind].strip())
        return text[:behind] + new + (", " if is_in_row else f",{end}{indent}") + text[behind:]
    comma = re.match(r"[ \t]*,", text[last:])
    tail = last + (comma.end() if comma else 0)
    row_end = text.find("\n", tail)
    if is_one_line or row_end < 0 or row_end > close:
        return text[:last] + f", {new}" + text[last:]
    return text[:last] + "," + text[tail : row_end + 1] + f"{indent}{new}," + end + text[row_end + 1 :]


def _in_poetry(text: str, table: str, distribution: str) -> str | None:
    section = _section(text, rf"\[\s*{re.escape(table)}\s*\]")
    if section is None:
        return None
    body = text[section[0] : section[1]].rstrip()
    end = "\r\n" if "\r\n" in text else "\n"
    at = section[0] + len(body)
    return (
        f'{text[:at]}{end}{distribution} = "*"{text[at:]}'
        if text[at : at + 1]
        else f'{text[:at]}{end}{distribution} = "*"{end}'
    )


def _in_ini(text: str, table: str, distribution: str) -> str | None:
    header, _, key = table.rpartition(".")
    section = _section(text, rf"\[{re.escape(header)}\]")
    if section is None:
        return None
    rows = lines(text[section[0] : section[1]])
    at = next((n for n, row in enumerate(rows) if re.match(rf"{re.escape(key)}\s*=", row)), None)
    if at is None:
        return None
    last = at
    while last + 1 < len(rows) and rows[last + 1].strip() and rows[last + 1][0] in " \t":
        last += 1
    if last == at:
        return None  # all on one line
    indent = re.match(r"[ \t]*", rows[at + 1])
    end = "\r\n" if "\r\n" in text else "\n"
    if not rows[last].endswith("\n"):
        rows[last] += end
    rows.insert(last + 1, f"{indent[0] if indent else '    '}{distribution}{end}")
    return text[: section[0]] + "".join(rows) + text[section[1] :]


def _in_list(text: str, distribution: str) -> str:
    rows, end = lines(text), "\r\n" if "\r\n" in text else "\n"
    names = [(n, name) for n, row in enumerate(rows) if (name := _listed(row))]
    is_sorted = [name for _, name in names] == sorted(name for _, name in names)
    at = next((n for n, name in names if is_sorted and name > named(distribution)), len(rows))
    if at == len(rows) and rows and not rows[-1].endswith("\n"):
        rows[-1] += end
    return "".join([*rows[:at], distribution + end, *rows[at:]])


def _listed(row: str) -> str:
    """The name in a line of a requirements file; "" for options, URLs and comments."""
    return "" if row.strip().startswith(("-", "#", "http", "git+", ".", "/", "--hash")) or row[:1] in " \t" else named(row)


def _section(text: str, header: str) -> tuple[int, int] | None:
    """Start and end of a table's body."""
    head = re.search(rf"(?m)^{header}[ \t]*(?:#.*)?\r?$\n?", text)
    if head is None:
        return None
    following = re.search(r"(?m)^\[", text[head.end() :])
    return head.end(), head.end() + following.start() if following else len(text)


def _strings(text: str, at: int) -> Iterator[tuple[int, int]]:
    """Start and end of each plain string of the TOML list that opens just before `at`."""
    pattern = re.compile(r"""[ \t\r\n,]*(?:#[^\n]*\n[ \t\r\n,]*)*("(?:[^"\\\n]|\\.)*"|'[^'\n]*')""")
    while (found := pattern.match(text, at)) is not None:
        yield found.start(1), found.end(1)
        at = found.end()


def _close(text: str, at: int) -> int | None:
    found = re.compile(r"[ \t\r\n,]*(?:#[^\n]*\n[ \t\r\n]*)*\]").match(text, at)
    return found.end() - 1 if found else None


def _is_only_change(before: str, after: str, target: RequirementList, distribution: str) -> bool:
    """Is the new requirement in this list the only difference between the parsed texts?"""
    old = {(p.table): p.names for p in requirement_lists({target.path: before})}
    new = {(p.table): p.names for p in requirement_lists({target.path: after})}
    if old.keys() != new.keys() or new.get(target.table) != old.get(target.table, frozenset()) | {named(distribution)}:
        return False
    if any(new[table] != old[table] for table in old if table != target.table):
        return False
    gone = [row for row in lines(before) if row.strip()]
    kept = [row for row in lines(after) if row.strip()]
    return len(kept) - len(gone) in (0, 1)
