"""Parses the changes in a model's answer: SEARCH/REPLACE blocks, or whole functions.

    pkg/a.py
    <<<<<<< SEARCH                     FUNCTION pkg/a.py::Class.method
    the lines as they are              ```python
    =======                            def method(self): …
    the lines as they should be        ```
    >>>>>>> REPLACE

An empty SEARCH creates a file. Weak models write a unified diff, JSON, a whole file, or a function without its path instead:
these are accepted if they are unambiguous, and so are blocks with a fence inside, without the last marker, or with the markers
or tags of other tools. Anything else is an `EditProblem`, whose sentence goes back to the model once. The block's format is
Aider's ("diff"). `agent/edits/placement.py` applies the changes to files.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import dropwhile, islice, pairwise, takewhile
from pathlib import PurePosixPath

from agent.edits.changes import EditProblem
from agent.source.outline import parse as parse_python

LONGEST = 256 * 1024  # characters; longer answers are rejected
MOST = 50  # changes in one answer
MOST_FENCES = 8  # further ends of one code block that are tried

_SEARCH = re.compile(r"\s{0,12}[<-]{3,9} ?(SEARCH|ORIGINAL|HEAD):?(?:\s{1,9}`?(?P<path>[\w./-]{1,300}\.\w{1,20})`?)?\s*$")
_DIVIDER = "======="
_DIVIDE = re.compile(r"\s{0,12}={5,9}\s*$")  # if there is no exact divider
_REPLACE = re.compile(r"\s{0,12}(>{5,9} ?(REPLACE|UPDATED)?|[>+]{3,9} ?(REPLACE|UPDATED))\s*$")
_FUNCTION = re.compile(r"[#*`\s]*FUNCTION:?\s+`?(?:(?P<path>[^:`\s]+)::)?(?P<name>[\w.]+)(?:\(\))?[`*:\s]*$")
_FENCE = re.compile(r"\s*(?P<ticks>`{3,}|~{3,})[\w+-]*\s*$")
_FILE = re.compile(r"(---|\+\+\+) (?P<path>[^\t\n]+)")
_PATCHED = re.compile(r"\*\*\* (?P<how>Update|Add|Delete) File: (?P<path>[^\n]{1,300})")
_JSON_KEYS = (
    ("path", "file", "filename", "file_path", "filepath"),
    ("search", "old", "old_string", "old_text", "old_str", "original", "find", "before"),
    ("replace", "new", "new_string", "new_text", "new_str", "replacement", "updated", "after"),
)
_TAG = re.compile(rf"<(?P<end>/?)(?P<name>{'|'.join(key for keys in _JSON_KEYS for key in keys)})>")
_QUOTES = re.compile(r"\"\"\"|'''")
_NUMBERED = re.compile(r"\s*(?P<number>\d+)\s?[:|] ?(?P<line>.*)$")
_NONE = "/dev/null"
_MARKS = ("", " ", "+", "-", "\\")  # first characters of a hunk's lines; without a fence, other lines are prose


@dataclass(frozen=True, slots=True)
class Block:
    """Replaces lines of a file; without `search` the file is new. Without a path, it is one of the files shown."""

    path: str
    search: tuple[str, ...]  # lines without their ends
    replace: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WholeFunction:
    """Replaces a function or class, by its qualified name. Without a path, it is in one of the files shown."""

    path: str
    name: str
    text: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WholeFile:
    """Replaces a file, or one definition of it: placement decides which."""

    path: str
    text: tuple[str, ...]


Change = Block | WholeFunction | WholeFile
Import = ast.Import | ast.ImportFrom


def parse(answer: str) -> tuple[Change, ...] | EditProblem:
    """The changes in an answer, in order, without the prose around them."""
    if not answer.strip():
        return EditProblem("The answer was empty.")
    if len(answer) > LONGEST:
        return EditProblem(f"The answer is longer than {LONGEST // 1024} KiB; answer with only the changed lines.")
    said = answer.rpartition("</think>")[2] or answer  # what a model thinks aloud is no answer
    rest = [line.removesuffix("\r") for line in said.split("\n")]
    for read in (_as_prompted, _as_diff, _as_json, _as_tags, _as_fences):
        changes = read(rest)
        if isinstance(changes, EditProblem):
            return changes
        if len(changes) > MOST:
            return EditProblem(f"The answer has more than {MOST} changes.")
        if changes:
            return tuple(changes)
    return EditProblem("The answer has no SEARCH/REPLACE block and no FUNCTION.")


def _as_prompted(rest: list[str]) -> list[Change] | EditProblem:
    """The two formats that the prompt describes."""
    changes: list[Change] = []
    at, path = 0, ""
    found: tuple[Change, int] | EditProblem
    while at < len(rest):
        line = rest[at]
        if opened := _SEARCH.match(line):
            path = opened["path"] or _path_above(rest, at) or path
            found = _block(rest, at, path)
        elif named := _FUNCTION.match(line):
            found = _whole_function(rest, at, (named["path"] or "").strip(), named["name"])
        else:
            at += 1
            continue
        if isinstance(found, EditProblem):
            return found
        change, at = found
        changes.append(change)
        if len(changes) > MOST:
            break
    return changes


def _as_diff(rest: list[str]) -> list[Change] | EditProblem:
    """A unified diff, with or without a fence; its line numbers are ignored."""
    changes: list[Change] = []
    path, old, new = "", list[str](), list[str]()
    in_hunk = in_fence = False

    def close() -> None:
        while old and new and not old[-1].strip() and not new[-1].strip():  # blank lines after a diff belong to the prose
            old.pop()
            new.pop()
        if path and old != new:
            changes.append(Block(path, tuple(old), tuple(new)))
        old.clear()
        new.clear()

    for line, following in zip(rest, [*rest[1:], ""], strict=True):
        is_fence = bool(_FENCE.match(line)) and not (in_hunk and line[:1] == " ")  # else it is a line of the file
        in_fence ^= is_fence
        if named := _PATCHED.match(line):  # the patch format of OpenAI's tools
            close()
            in_hunk, path = False, named["path"].strip()
            if named["how"] == "Delete":
                return EditProblem(f"An answer cannot remove {path}; empty it instead.")
            in_hunk = named["how"] == "Add"
        elif line.startswith("*** "):
            close()
            in_hunk = False
        elif line.startswith("--- ") and following.startswith("+++ "):
            close()
            in_hunk, path = False, _diff_path(line, following)
            if _diff_path(following, following) == _NONE:
                return EditProblem(f"An answer cannot remove {path}; empty it instead.")
        elif line.startswith("@@") and path:
            close()
            in_hunk = True
        elif in_hunk and (line.startswith(("diff --git", "index ")) or is_fence or (line[:1] not in _MARKS and not in_fence)):
            close()
            in_hunk = False
        elif in_hunk and not line.startswith("\\"):
            if not line.startswith("+"):
                old.append(line[1:] if line[:1] in ("-", " ") else line)
            if not line.startswith("-"):
                new.append(line[1:] if line[:1] in ("+", " ") else line)
    close()
    return changes


def _diff_path(line: str, following: str) -> str:
    """The old file's path, or the new one's for a new file, without git's `a/` and `b/`."""
    paths = [named["path"].strip() for each in (line, following) if (named := _FILE.match(each))]
    path = next((path for path in paths if path != _NONE), _NONE)
    return path[2:] if path.startswith(("a/", "b/")) else path


def _as_json(rest: list[str]) -> list[Change] | EditProblem:
    """Objects with a path, the old text and the new text, alone, in a list, or in a list under one key."""
    starts = [at for at, line in enumerate(rest) if at == 0 or _FENCE.match(rest[at - 1])]
    for at in [at for at in starts if rest[at].lstrip().startswith(("{", "["))][:MOST]:
        end = next((i for i in range(at, len(rest)) if _FENCE.match(rest[i])), len(rest))
        text = "\n".join(rest[at:end])
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict) and len(lists := [each for each in value.values() if isinstance(each, list)]) == 1:
            value = lists[0]
        entries = value if isinstance(value, list) else [value]
        changes = [_json_block(entry) for entry in entries if isinstance(entry, dict)]
        if changes and len(changes) == len(entries) and None not in changes:
            return [change for change in changes if change is not None]
    return []


def _json_block(entry: dict[str, object]) -> Block | None:
    path, old, new = (next((entry[key] for key in keys if key in entry), None) for keys in _JSON_KEYS)
    if not isinstance(path, str) or not isinstance(old, str) or not isinstance(new, str):
        return None
    return Block(path, tuple(old.removesuffix("\n").split("\n")), tuple(new.removesuffix("\n").split("\n")) if new else ())


def _as_tags(rest: list[str]) -> list[Change] | EditProblem:
    """XML-like elements: a path, the old text and the new text, in this order."""
    text, changes = "\n".join(rest), list[Change]()
    tags = list(_TAG.finditer(text))
    elements = [
        (one["name"], text[one.end() : other.start()])
        for one, other in pairwise(tags)
        if not one["end"] and other["end"] and one["name"] == other["name"]
    ]
    path, known = "", [next((at for at, keys in enumerate(_JSON_KEYS) if name in keys), -1) for name, _ in elements]
    for at, (_, content) in enumerate(elements[: MOST * 3]):
        if known[at] == 0:
            path = content.strip()
        elif known[at] == 1 and known[at + 1 : at + 2] == [2]:
            old, new = (each.removeprefix("\n").removesuffix("\n") for each in (content, elements[at + 1][1]))
            changes.append(Block(path, tuple(old.split("\n")), tuple(new.split("\n")) if new else ()))
    return changes


def _as_fences(rest: list[str]) -> list[Change] | EditProblem:
    """Code blocks below their file's path, or with one whole function."""
    changes: list[Change] = []
    at = unclosed = 0
    while at < len(rest) and len(changes) <= MOST and unclosed <= MOST:
        if (found := _fenced(rest, at)) is None:
            unclosed += bool(_FENCE.match(rest[at]))
            at += 1
            continue
        path, (text, after) = _path_above(rest, at), found
        file, _, defined = path.partition("::")
        if defined:
            changes.append(WholeFunction(file, defined, text))
        elif path:
            changes.append(WholeFile(path, text))
        elif (name := only_definition(text)) is not None:
            changes.append(WholeFunction("", name, text))
        at = after
    return changes


def _fenced(rest: list[str], at: int) -> tuple[tuple[str, ...], int] | None:
    """The lines of a code block that opens at `at`, and the line after it; None if none opens there, or it is not closed."""
    opened = _FENCE.match(rest[at]) if at < len(rest) else None
    if opened is None:
        return None
    later = takewhile(lambda i: not _begins(rest[i]), range(at + 1, len(rest)))
    first = next((i for i in later if rest[i].strip() == opened["ticks"]), None)
    end = first
    if first is not None and _QUOTES.search("\n".join(rest[at + 1 : first])) and _python(rest[at + 1 : first]) is None:
        # A docstring may hold fences: then the block ends at the first that leaves whole code.
        ends = islice((i for i in later if rest[i].strip() == opened["ticks"]), MOST_FENCES)
        end = next((i for i in ends if _python(rest[at + 1 : i]) is not None), first)
    return None if end is None else (tuple(rest[at + 1 : end]), end + 1)


def _begins(line: str) -> bool:
    return bool(_FUNCTION.match(line) or _SEARCH.match(line))


def _python(text: Sequence[str]) -> ast.Module | None:
    first = next((line for line in text if line.strip()), "")
    margin = first[: len(first) - len(first.lstrip())]
    return parse_python("\n".join(line.removeprefix(margin) for line in text))


def below_imports(text: tuple[str, ...]) -> tuple[list[Import], list[ast.stmt], tuple[str, ...]]:
    """The imports above other code, that code, and its lines. Without lines of their own, imports are part of the code."""
    tree = _python(text)
    body = tree.body if tree else []
    imports = [node for node in takewhile(lambda node: isinstance(node, Import), body) if isinstance(node, Import)]
    code = body[len(imports) :]
    if not imports or not code or code[0].lineno == imports[-1].end_lineno:
        return [], body, text
    return imports, code, tuple(dropwhile(lambda line: not line.strip(), text[imports[-1].end_lineno :]))


def only_definition(text: tuple[str, ...]) -> str | None:
    """The name of the only function or class of a code block, which may have imports above it."""
    match below_imports(text)[1]:
        case [ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name)]:
            return name
    return None


def _path_above(rest: list[str], at: int) -> str:
    """The path on the line before a block, with or without a fence between."""
    for line in reversed(rest[max(0, at - 3) : at]):
        if _REPLACE.match(line):
            return ""
        if not line.strip() or _FENCE.match(line):
            continue
        word = re.sub(r"^(#+|[-*]+|File:?|Path:?)\s+", "", line.strip().strip("*"), flags=re.IGNORECASE).strip("*`:'\" ")
        return word if " " not in word and ("." in word or "/" in word) and not word.endswith(".") else ""
    return ""


def _block(rest: list[str], at: int, path: str) -> tuple[Block, int] | EditProblem:
    likely = later = end = None
    for i in range(at + 1, len(rest)):
        if _SEARCH.match(rest[i]):
            later = i
            break
        if likely is None and _DIVIDE.match(rest[i]):
            likely = i
        elif likely is not None and _REPLACE.match(rest[i]):
            end = i
            break
    if likely is None and later is not None:
        return EditProblem(f"The block for {path or 'a file'} has a second SEARCH inside.")
    unclosed = EditProblem(f"The block for {path or 'a file'} is not closed with ======= and >>>>>>> REPLACE.")
    if likely is None:
        return unclosed
    after = end + 1 if end is not None else 0
    if end is None:
        found = _unmarked_end(rest, at, likely, len(rest) if later is None else later, path)
        if found is None:
            return unclosed
        end, after = found
    # An underlined heading inside SEARCH looks like a divider too.
    divide = next((i for i in range(likely, end) if rest[i].rstrip() == _DIVIDER), likely)
    return Block(path, tuple(rest[at + 1 : divide]), tuple(rest[divide + 1 : end])), after


def _unmarked_end(rest: list[str], at: int, divide: int, later: int, path: str) -> tuple[int, int] | None:
    """Where a block without its last marker ends, and where to read on: at the fence around it, the next block, or the end.

    None if prose may follow the code.
    """
    fence = next((_FENCE.match(line) for line in reversed(rest[max(0, at - 2) : at]) if _FENCE.match(line)), None)
    closed = next((i for i in range(divide + 1, later) if fence and rest[i].strip() == fence["ticks"]), None)
    if closed is not None:
        return closed, closed + 1
    end = later
    if later < len(rest) and _path_above(rest, later):
        end = max(i for i in range(divide, later) if rest[i].strip() and not _FENCE.match(rest[i]))  # the next block's path
    while end > divide + 1 and (not rest[end - 1].strip() or _FENCE.match(rest[end - 1])):
        end -= 1
    code = rest[divide + 1 : end]
    is_flat = any(line.strip() and not line[0].isspace() for line in rest[at + 1 : divide])
    has_prose = any(not one.strip() and other.strip() and not other[0].isspace() for one, other in pairwise(code))
    stands_out = bool(code) and not code[-1][:1].isspace() and not is_flat
    return None if has_prose or stands_out or not path.endswith(".py") else (end, later)


def readings(block: Block) -> Iterator[Block]:
    """What a block can mean, likeliest first: with several divider lines, and with fences or line numbers that are not code."""
    for at in reversed([i for i, line in enumerate(block.replace) if block.search and line.rstrip() == _DIVIDER]):
        yield Block(block.path, (*block.search, _DIVIDER, *block.replace[:at]), block.replace[at + 1 :])
    yield block
    if any(_unfenced(block.search) or ()):
        yield Block(block.path, _unfenced(block.search) or (), _unfenced(block.replace) or block.replace)
    numbered, new = _unnumbered(block.search), _unnumbered(block.replace)
    if numbered is not None and any(line.strip() for line in numbered) and (new is not None or not block.replace):
        yield Block(block.path, numbered, new or ())


def _unfenced(text: Sequence[str]) -> tuple[str, ...] | None:
    """The lines inside a fence; None if they are not in one."""
    whole = [i for i, line in enumerate(text) if line.strip()]
    if len(whole) > 1 and _FENCE.match(text[whole[0]]) and (_FENCE.match(text[whole[-1]])):
        return tuple(text[whole[0] + 1 : whole[-1]])
    return None


def _unnumbered(text: Sequence[str]) -> tuple[str, ...] | None:
    """The lines without their numbers; None unless each line has one."""
    found = [_NUMBERED.match(line) for line in text]
    return tuple(each["line"] for each in found if each) if found and all(found) else None


def _whole_function(rest: list[str], at: int, path: str, name: str) -> tuple[WholeFunction, int] | EditProblem:
    start = at + 1
    while start < len(rest) and not rest[start].strip():
        start += 1
    if start == len(rest) or not _FENCE.match(rest[start]):
        return EditProblem(f"FUNCTION {name} is not followed by a fenced code block.")
    found = _fenced(rest, start)
    if found is None:
        return EditProblem(f"The code block of FUNCTION {name} is not closed.")
    return WholeFunction(path, name, found[0]), found[1]


def clean_path(path: str) -> str | None:
    """A clean path inside the repository, or None if it points outside."""
    pure = PurePosixPath(path.strip().removeprefix("./"))
    outside = pure.is_absolute() or ".." in pure.parts or "\\" in path or not pure.parts or any(ord(c) < 32 for c in path)
    return None if outside else str(pure)
