"""A repair of the merge that CI tested has to hold on the pull request's own head too, where it is published."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace

from agent.case import Case
from agent.contract.blobs import Blobs
from agent.contract.events import Emit, StepStarted
from agent.contract.outcome import NoRepair, Outcome, Repair
from agent.contract.proposal import Candidate, Edits, FileChange
from agent.edits.hunks import merge
from agent.engine import Engine
from app.attempt.gather import HeadCommit
from app.github.repository import Repository

_NEXT = "Merge the base branch into this one, then apply the repair; or push the merge: if it fails, a new attempt starts."


async def on_head(
    repair: Repair,
    case_of_head: Callable[[str], Awaitable[Case]],
    head: HeadCommit,
    engine: Engine,
    repository: Repository,
    blobs: Blobs,
    emit: Emit,
) -> Repair | NoRepair:
    """The repair with the head's texts, if the same steps verify it there; otherwise why it cannot be published.

    Where the head is green, nothing can be proven on it: then the repair has to keep it green, and the proof is the merge's.
    `case_of_head` makes the head's case, of which each is used once, under an id. Raises `SandboxError`, `GitHubError`.
    """
    await emit(StepStarted(step="head", text="Verifying the repair on the branch alone, without its base's changes"))
    edits = await _on_texts_of(head, repair.edits, repository)
    if edits is None:
        return _told(repair, "The base branch changed the same lines.")
    if all(edit.before == edit.after for edit in edits):
        return _told(repair, "The branch has this code already, and the base branch breaks it.")
    last = repair.log.iterations[-1] if repair.log.iterations else None
    candidate = Candidate(last.rung if last else "patterns", edits, repair.title)
    # It was judged and approved already: here only the checks decide.
    found = await engine.verify(await case_of_head("head"), candidate, blobs=blobs, emit=emit)
    if isinstance(found, Repair):
        return replace(repair, edits=found.edits, evidence=found.evidence)
    if found.outcome is not Outcome.NOT_REPRODUCED:
        return _told(repair, found.reason)
    await emit(StepStarted(step="head", text="The branch alone is green: verifying that the repair keeps it so"))
    problem = await engine.keep_green(await case_of_head("green head"), edits, blobs=blobs, emit=emit)
    if problem is not None:
        return _told(repair, problem)
    return replace(repair, edits=edits, evidence=replace(repair.evidence, merged_into=head.base))


def _told(repair: Repair, why: str) -> NoRepair:
    reason = f"The repair holds on the merge that CI tested, but not on this branch alone. {why}"
    return NoRepair(Outcome.REFUSED, reason, _NEXT, repair.usage, repair.log, suspects=(repair,))


async def _on_texts_of(head: HeadCommit, edits: Edits, repository: Repository) -> Edits | None:
    """The edits, made on the texts of the head; None if they conflict with what the base changed."""
    moved = []
    for edit in edits:
        content = await repository.file(edit.path, head.sha)
        text = content.decode("utf-8", "replace") if content is not None else None
        if text == edit.before:
            moved.append(edit)
            continue
        both = merge((FileChange(edit.path, edit.before, text),), (edit,)) if text is not None else None
        if both is None:
            return None
        moved.append(FileChange(edit.path, text, both[0].after))
    return tuple(moved)
