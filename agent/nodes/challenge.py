"""The second oracle on the proven candidate: do its functions keep their promises, and how do they behave beside the tests?

It may object; what is no more than strange becomes a doubt, which lowers the confidence. A model is asked for tests only where
there is a specification and the examples in it have not settled the matter.
"""

from __future__ import annotations

import asyncio
import hashlib
from dataclasses import replace

from agent.challenge import generated_tests as written
from agent.challenge.failing_tests import failing_tests
from agent.challenge.judgement import Challenged, judge, objections
from agent.challenge.play import play
from agent.challenge.specification import specification
from agent.challenge.touched import touched
from agent.checks.oracle import Verification
from agent.checks.sampling import red_check, test_files
from agent.contract.events import Opined
from agent.contract.proposal import Candidate, Edits
from agent.contract.usage import Usage
from agent.contract.verdicts import Check, CheckRun, Oracle
from agent.edits.changes import changed_lines, diff, read_text
from agent.models.values import ModelError
from agent.state import Objection, State, Work, fell_back, pack

RIVALS = 5  # other candidates of the round whose behaviour is compared
MOST_FILES = 3  # of failing tests that a model is shown
LONGEST_DIFF = 4_000  # characters of the change that a model is shown
LARGE = 10  # changed lines, above which a model's change is worth a second call that looks for where it is wrong


async def challenge(state: State, work: Work) -> State:
    """Raises `SandboxError` when the sandbox is lost; where nothing can be played with, the winner is accepted."""
    context = work.context
    candidate = await context.recall(Candidate, state["winner"][0])
    oracle = await context.recall(Oracle, state["oracle_ref"])
    rivals = await _rivals(state, work, candidate)
    changes = [candidate.edits, *rivals.values()]
    functions = await asyncio.to_thread(touched, changes)
    check = red_check(oracle)
    found, update = Challenged(), State()
    if check is not None and functions.functions:
        base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
        played = await play(work.task.sandbox, work.runner, oracle, base, functions, changes)
        if played.unavailable:
            update = await fell_back(work, "challenge", f"The change could not be challenged: {played.unavailable}.")
        found = judge(played)
        if found.objection:
            update = _dropped(state, {ref: why for ref, why in zip(rivals, objections(played)[1:], strict=False) if why})
        if not found.objection and (found.doubts or not found.kept) and check.reader == "pytest":
            said, more = await _written(state, work, candidate, oracle, check)
            found = replace(
                found, objection=next(iter(said.against), ""), doubts=(*found.doubts, *said.odd), kept=found.kept + said.green
            )
            update = {**update, **more}
    opined = Opined(
        text=f"Not accepted, because {found.objection}: {candidate.title}" if found.objection else "",
        step="challenge",
        title=candidate.title,
        accepted=not found.objection,
        reasons=[found.objection, *found.doubts] if found.objection else list(found.doubts),
    )
    await context.emit(opined)
    objection = pack(Objection("challenge", found.objection)) if found.objection else None
    return {**update, "challenged": pack(found), "objection": objection, "opinions": [pack(opined)]}


async def _rivals(state: State, work: Work, candidate: Candidate) -> dict[str, Edits]:
    """The other candidates of the round that are plausible as far as is known, by their refs."""
    refs = [*(verdict[0] for verdict in state.get("passed", [])), *state.get("allowed", [])]
    rivals = {ref: (await work.context.recall(Candidate, ref)).edits for ref in refs[:RIVALS]}
    return {ref: edits for ref, edits in rivals.items() if edits != candidate.edits}


def _dropped(state: State, contradicted: dict[str, str]) -> State:
    """Rivals that break a promise as the winner does are spared the proof."""
    allowed = state.get("allowed", [])
    failed = [
        [ref, pack(Verification(False, f"challenge objects: {why}"))] for ref, why in contradicted.items() if ref in allowed
    ]
    return {"allowed": [ref for ref in allowed if ref not in contradicted], "failed": failed}


async def _written(
    state: State, work: Work, candidate: Candidate, oracle: Oracle, check: Check
) -> tuple[written.Written, State]:
    """What tests from the specification say, where there is a specification and a model that reads it.

    They are written blind, and so once for all changes of the same functions; a large change of a model, which may be anything,
    is looked at besides.
    """
    context = work.context
    functions = await asyncio.to_thread(touched, [candidate.edits])
    told = await asyncio.to_thread(specification, functions)
    if context.models is None or not told or work.ledger.model_spent_up() is not None:
        return written.Written(), {}
    red = sorted(oracle.must_turn[check.name])
    texts = {path: await read_text(work.task.sandbox.base, path) for path in test_files(red, check.reader)[:MOST_FILES]}
    known = await asyncio.to_thread(failing_tests, {path: t for path, t in texts.items() if isinstance(t, str)}, red)
    is_large = candidate.rung.startswith("model") and changed_lines(candidate.edits) > LARGE
    shown = ["", diff(candidate.edits)[:LONGEST_DIFF]] if is_large else [""]
    names = tuple(function.name for function in functions.functions)
    blind = hashlib.sha256(f"{told}\0{known}".encode("utf-8", "surrogatepass")).hexdigest()
    had = state.get("written", {})
    tests = list(await context.recall(tuple[str, ...], had[blind])) if blind in had else []
    usage, update = Usage(), State()
    for change in shown[len(tests) > 0 :]:
        try:
            brief = written.Brief(names, told, known, change, tuple(tests))
            fresh, cost = await written.ask(context.models, brief, seconds=work.ledger.seconds_left(), emit=context.emit)
        except ModelError as error:
            cost = error.usage
            update |= await fell_back(work, "challenge", f"No tests from the specification: {error}.")
        else:
            tests += fresh
            if not change:
                update["written"] = {**had, blind: await context.keep(fresh)}
        usage += cost
    folder = next(iter(texts), "").rpartition("/")[0]
    said = await written.run(work, check, f"{folder}/" if folder else "", tests, candidate.edits, told) if tests else None
    return said or written.Written(), {**update, "usage": [pack(usage)]}
