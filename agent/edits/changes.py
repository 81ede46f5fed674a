"""Changes of files as values: digest, diff, reading from a workspace and applying to it.

Content is UTF-8 text with its own line endings; anything else is an `EditProblem`. `agent/edits/answers.py` parses what models
write.
"""

from __future__ import annotations

import difflib
import hashlib
from dataclasses import dataclass

from agent.contract.proposal import Edits, FileChange
from sandbox.base import MIB, LimitExceeded, Workspace

EDITABLE = MIB  # bytes of the largest file that is edited
DIFF_WORK, DIFF_CHANGES = 4_000_000, 1_000  # comparisons and changed lines; beyond them the difference is one block
Opcode = tuple[str, int, int, int, int]  # as in `difflib`: tag, lines of one text, lines of the other


@dataclass(frozen=True, slots=True)
class EditProblem:
    """The reason why an answer cannot be applied, as one sentence for its author."""

    sentence: str


def digest(edits: Edits) -> str:
    """Equal changes have equal digests, whatever the order of their files."""
    sha = hashlib.sha256()
    for change in sorted(edits, key=lambda change: change.path):
        for part in (change.path, change.before, change.after):
            data = b"" if part is None else part.encode("utf-8", "surrogatepass")
            sha.update(b"-" if part is None else b"%d:" % len(data))
            sha.update(data)
    return sha.hexdigest()


def lines(text: str) -> list[str]:
    """Lines with their endings, split as Python and git do: at newlines only, not at form feeds."""
    parts = text.split("\n")
    ended = [part + "\n" for part in parts[:-1]]
    return [*ended, parts[-1]] if parts[-1] else ended


def diff(edits: Edits, context: int = 3) -> str:
    """The change as a unified diff that `git apply` takes."""
    out: list[str] = []
    for change in edits:
        before, after = lines(change.before or ""), lines(change.after or "")
        matcher = difflib.SequenceMatcher[str](None, [], [])
        matcher.opcodes = opcodes(before, after)  # type: ignore[attr-defined]  # computed below, as difflib is too slow
        hunks = list(matcher.get_grouped_opcodes(context)) if before != after else []
        if hunks:
            out.append("--- /dev/null\n" if change.before is None else f"--- a/{change.path}\n")
            out.append("+++ /dev/null\n" if change.after is None else f"+++ b/{change.path}\n")
        for hunk in hunks:
            out.append(f"@@ -{_range(hunk[0][1], hunk[-1][2])} +{_range(hunk[0][3], hunk[-1][4])} @@\n")
            for tag, i1, i2, j1, j2 in hunk:
                out += [_marked(" " if tag == "equal" else "-", line) for line in before[i1:i2]]
                out += [_marked("+", line) for line in after[j1:j2] if tag != "equal"]
    return "".join(out)


def _range(start: int, end: int) -> str:
    """The range in a hunk's header, from 1; an empty one names the line before it."""
    return f"{start + 1 if end > start else start},{end - start}"


def _marked(mark: str, line: str) -> str:
    return f"{mark}{line}" if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"


def opcodes(before: list[str], after: list[str]) -> list[Opcode]:
    """The line ranges that were kept, replaced, deleted and inserted, in bounded time.

    Myers' greedy algorithm (An O(ND) Difference Algorithm, 1986) between the common head and tail: `difflib` takes minutes for
    one changed line among many equal ones.
    """
    shorter = min(len(before), len(after))
    head = next((n for n in range(shorter) if before[n] != after[n]), shorter)
    tail = next((n for n in range(shorter - head) if before[-1 - n] != after[-1 - n]), shorter - head)
    same = _same(before[head : len(before) - tail], after[head : len(after) - tail])
    pairs = [(n, n) for n in range(head)] + [(head + i, head + j) for i, j in same]
    pairs += [(len(before) - n, len(after) - n) for n in range(tail, 0, -1)]
    found: list[Opcode] = []
    i = j = 0
    for at_i, at_j in [*pairs, (len(before), len(after))]:
        if i < at_i or j < at_j:
            found.append(("replace" if i < at_i and j < at_j else "delete" if i < at_i else "insert", i, at_i, j, at_j))
        if at_i < len(before) and at_j < len(after):
            if found and found[-1][0] == "equal" and found[-1][2] == at_i:
                found[-1] = ("equal", found[-1][1], at_i + 1, found[-1][3], at_j + 1)
            else:
                found.append(("equal", at_i, at_i + 1, at_j, at_j + 1))
        i, j = at_i + 1, at_j + 1
    return found


def _same(a: list[str], b: list[str]) -> list[tuple[int, int]]:
    """The pairs of equal lines in a shortest edit; none if the search takes too long."""
    reach, trace, work = {1: 0}, [], 0
    for changes in range(len(a) + len(b) + 1):
        trace.append(dict(reach))
        for k in range(-changes, changes + 1, 2):
            down = k == -changes or (k != changes and reach[k - 1] < reach[k + 1])
            start = x = reach[k + 1] if down else reach[k - 1] + 1
            while x < len(a) and x - k < len(b) and a[x] == b[x - k]:
                x += 1
            reach[k] = x
            work += 1 + x - start
            if x >= len(a) and x - k >= len(b):
                return _path(trace, len(a), len(b))
        if work > DIFF_WORK or changes >= DIFF_CHANGES:
            return []
    return []


def _path(trace: list[dict[int, int]], x: int, y: int) -> list[tuple[int, int]]:
    """Traces the shortest edit back through the positions that each number of changes reached."""
    kept = []
    for changes in range(len(trace) - 1, -1, -1):
        reach, k = trace[changes], x - y
        down = k == -changes or (k != changes and reach[k - 1] < reach[k + 1])
        before_x = reach[k + 1] if down else reach[k - 1]
        before_y = before_x - (k + 1 if down else k - 1)
        while x > max(before_x, 0) and y > max(before_y, 0):
            x, y = x - 1, y - 1
            kept.append((x, y))
        x, y = before_x, before_y
    return kept[::-1]


def changed_lines(edits: Edits) -> int:
    """Added plus removed lines."""
    return len(added(edits)) + len(removed(edits))


def edited_lines(edits: Edits) -> int:
    """Changed lines as a person counts them: a line that replaces another is one."""
    return sum(max(end - start, to - first) for change in edits for start, end, first, to in changed_ranges(change))


def added(edits: Edits) -> list[str]:
    """The added lines, without their endings."""
    return [line.rstrip("\r\n") for _, lines_in in map(changes, edits) for line in lines_in]


def removed(edits: Edits) -> list[str]:
    """The removed lines, without their endings."""
    return [line.rstrip("\r\n") for lines_out, _ in map(changes, edits) for line in lines_out]


def changes(change: FileChange) -> tuple[list[str], list[str]]:
    """The removed and the added lines of one file, with their endings."""
    before, after, ranges = lines(change.before or ""), lines(change.after or ""), changed_ranges(change)
    return [line for i, end, _, _ in ranges for line in before[i:end]], [
        line for _, _, j, end in ranges for line in after[j:end]
    ]


def changed_ranges(change: FileChange) -> list[tuple[int, int, int, int]]:
    """The runs of changed lines: start and end in the old text, start and end in the new one."""
    codes = opcodes(lines(change.before or ""), lines(change.after or ""))
    return [code[1:] for code in codes if code[0] != "equal"]


async def read_text(workspace: Workspace, path: str) -> str | EditProblem | None:
    """A file as text; None if it does not exist; a problem if it cannot be edited as text."""
    try:
        content = await workspace.read(path, EDITABLE)
    except FileNotFoundError:
        return None
    except LimitExceeded:
        return EditProblem(f"{path} is larger than {EDITABLE // 1024} KiB and is not edited.")
    except ValueError as error:
        return EditProblem(f"{path!r} is not a file in the repository: {error}.")
    return text_of(path, content)


def text_of(path: str, content: bytes) -> str | EditProblem:
    """The content of a file as text, or why it cannot be edited as text."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return EditProblem(f"{path} is not UTF-8 text and is not edited.")
    return EditProblem(f"{path} is a binary file and is not edited.") if "\0" in text else text


async def apply(workspace: Workspace, edits: Edits) -> EditProblem | None:
    """Apply a change, if every file has the content that the change expects."""
    for change in edits:
        current = await read_text(workspace, change.path)
        if isinstance(current, EditProblem):
            return current
        if current != change.before:
            return EditProblem(f"{change.path} has changed since the patch was made.")
    for change in edits:
        if change.after is None:
            await workspace.remove(change.path)
        else:
            await workspace.write(change.path, change.after.encode("utf-8"))
    return None
