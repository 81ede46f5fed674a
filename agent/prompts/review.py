"""The review prompt: the failing tests, the change, and the changed functions after it.

Sizes are in characters, and small because a review should cost little.
"""

from __future__ import annotations

from collections.abc import Sequence

from agent.contract.proposal import Candidate, Edits, FileChange
from agent.edits.changes import changed_ranges, diff
from agent.models.values import Prompt
from agent.prompts import excerpts, failures, render
from agent.prompts.passages import nearest
from agent.proposer import Situation
from agent.source.outline import Definition, Module, changed

TEST, DIFF, WHOLE, CONTEXT = 1_500, 3_000, 1_800, 700
ERROR = 200  # tokens of the failing tests' messages
BESIDE = 1  # unchanged lines around a change if its function is shown too
MINDLESS = ("patterns",)  # rungs that try small changes until the tests pass


async def review(situation: Situation, candidate: Candidate, asked: Sequence[str] = (), variants: Sequence[str] = ()) -> Prompt:
    """`asked`: what rules noticed; `variants`: mutations of the repair that pass the same tests. A clause each."""
    tests = await excerpts.failing_tests(situation, TEST)
    messages = failures.as_text(failures.red(situation), ERROR)
    change = _cut(diff(candidate.edits), DIFF)
    functions, hidden = _functions(candidate.edits, change)
    return render(
        "review",
        test=f"{tests}\n\n{messages}".strip(),
        diff=_cut(diff(candidate.edits, BESIDE), DIFF) if functions else change,
        functions=functions,
        context=_cut("\n\n".join(f'{each.signature}\n"""{each.docstring}"""' for each in hidden if each.docstring), CONTEXT),
        is_mutation=candidate.rung in MINDLESS,
        asked="\n".join(f"- {clause}" for clause in asked),
        variants="\n".join(f"{number}. {clause}" for number, clause in enumerate(variants, 1)),
    )


def _functions(edits: Edits, change: str) -> tuple[str, list[Definition]]:
    """The code of changed functions after the change, unless the diff shows them whole; and those that were cut."""
    seen, texts, hidden, room = {line[1:] for line in change.splitlines()}, list[str](), list[Definition](), WHOLE
    for edit in edits:
        after = Module(edit.path, edit.after or "")
        new = _changed_lines(edit)
        for each in changed(Module(edit.path, edit.before or ""), after):
            lines = after.text(each.first, each.last).splitlines()
            if seen.issuperset(lines):
                continue
            text = "\n".join(nearest(lines, [at - each.first for at in new], room))
            if len(text) < sum(map(len, lines)):
                hidden.append(each)
            texts.append(text)
            room -= len(text)
    return "\n\n".join(text for text in texts if text), hidden


def _changed_lines(edit: FileChange) -> list[int]:
    """Line numbers after the change, from 1; for removed lines, the following one."""
    ranges = ((first, end) for _, _, first, end in changed_ranges(edit))
    return [at for first, end in ranges for at in range(first + 1, max(end, first + 1) + 1)]


def _cut(text: str, characters: int) -> str:
    """The first lines of a text that fit."""
    return text if len(text) <= characters else text[:characters].rpartition("\n")[0] + "\n[…]"
