"""Challenges the proven winner beyond the test suite: do the changed functions behave as documented?

Strange behaviour is only a doubt, which lowers the confidence, or a question; so are mutations of the change itself that pass
the same tests and behave differently. A model writes tests only if there is a specification whose examples do not settle it.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Collection, Mapping
from dataclasses import replace

from agent.challenge import generated_tests
from agent.challenge.exercise import exercise
from agent.challenge.judgement import Challenged, alike, judge, objections, with_neighbours
from agent.challenge.specification import failing_tests, specification, test_of
from agent.challenge.touched import touched
from agent.challenge.varied import knows_by_heart
from agent.checks.oracle import Verification
from agent.checks.sampling import red_check
from agent.contract.events import Opined
from agent.contract.proposal import Candidate, Edits, is_model, is_search
from agent.contract.verdicts import Check, CheckRun, Oracle, VerdictId
from agent.edits.changes import digest, read_text
from agent.guard.deciding_files import is_doctest
from agent.guard.hardcoded import new_values
from agent.models.values import ModelError
from agent.nodes.guard import MOST_FILES
from agent.nodes.propose import situation_of
from agent.proposers.patterns.pinning import pinning
from agent.state import Contest, Objection, State, Work, fell_back, pack, red_of

NEIGHBOURS = 5  # mutations of the winner that pass too and with which behaviour is compared
Tests = Mapping[str, tuple[str, list[VerdictId]]]  # the failing tests' files, by path: text and tests
BY_HEART = "special-case"  # the guard's rule that a policy may make a refusal
RIVALS = 5  # other candidates of the round with which behaviour is compared


async def challenge(state: State, work: Work) -> Contest:
    """Accepts the winner if nothing can be tried. Raises `SandboxError` when the sandbox is lost."""
    context = work.context
    candidate = await context.recall(Candidate, state["winner"][0])
    oracle = await context.recall(Oracle, state["oracle_ref"])
    rivals = await _rivals(state, work, candidate)
    check = red_check(oracle)
    found, update = Challenged(), Contest()
    pinned = await pinning(await situation_of(state, work, with_change=False), candidate.edits)
    near = [each.edits for each in pinned.passing[:NEIGHBOURS]]
    changes = [candidate.edits, *rivals.values(), *near]
    functions, new = await asyncio.to_thread(lambda: (touched(changes), new_values(candidate.edits)))
    if check is not None and functions.functions:
        base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
        seen = await exercise(work.task.sandbox, work.runner, oracle, base, functions, changes)
        if seen.unavailable:
            update = await fell_back(work, "challenge", f"The patch could not be tested beyond the suite: {seen.unavailable}.")
        elif seen.silent == "base":
            update = await fell_back(work, "challenge", "The changed functions could not be called outside of a test run.")
        titles = [each.title for each in pinned.passing]
        judged = judge(seen, len(rivals), has_data=bool(new), is_mutation=is_search(candidate.rung))
        found = with_neighbours(judged, seen, len(changes) - len(near) + 1, pinned.tried, titles)
        found = replace(found, alike=alike(seen, [digest(edits) for edits in rivals.values()]))
        if found.objection:
            update = _dropped(state, {ref: why for ref, why in zip(rivals, objections(seen)[1:], strict=False) if why})
        tests = await _tests(state, work, oracle, check) if check.reader == "pytest" else {}
        may_deceive = new and not is_search(candidate.rung)
        if may_deceive and not found.objection and not found.questions:
            found = replace(found, by_heart=await _by_heart(work, check, tests, candidate, new))
        if any(_is_example(id_, check) for id_ in oracle.must_turn[check.name]):
            # The examples that fail are what the model was shown.
            found = replace(found, witnesses=0)
        needed = found.doubts or not found.kept or (is_model(candidate.rung) and not found.witnesses)
        if not found.objection and needed and check.reader == "pytest":
            said, more = await _written(state, work, candidate, check, tests)
            if said is not None:
                found = replace(
                    found,
                    objection=next(iter(said.against), ""),
                    doubts=(*found.doubts, *said.odd),
                    kept=found.kept + said.green,
                    witnesses=found.witnesses + said.turned,
                    tests_due=said.tells and not said.turned,
                    by_heart="" if said.turned else found.by_heart,
                )
            update = {**update, **more}
        if found.by_heart and BY_HEART in work.task.policy.refuses and not found.objection:
            found = replace(found, objection=found.by_heart)
    opined = Opined(
        text=f"Rejected because {found.objection}: {candidate.title}" if found.objection else "",
        step="challenge",
        title=candidate.title,
        accepted=not found.objection,
        reasons=[found.objection, *found.doubts] if found.objection else list(found.doubts),
    )
    await context.emit(opined)
    objection = pack(Objection("challenge", found.objection)) if found.objection else None
    return {**update, "challenged": pack(found), "objection": objection, "opinions": [pack(opined)]}


async def _by_heart(work: Work, check: Check, tests: Tests, candidate: Candidate, new: Collection[object]) -> str:
    """What has to be asked because the change may know a failing test by heart; "" if nothing has."""
    for path, (text, red) in tests.items():
        if why := await knows_by_heart(work, check, path, text, red, candidate.edits, new):
            return why
    return ""


async def _tests(state: State, work: Work, oracle: Oracle, check: Check) -> Tests:
    """The files in which failing tests are written, with their texts and tests: pytest names the file that collects a test,
    which may import it. Without docstring examples, whose files have the functions' code."""
    found: dict[str, list[VerdictId]] = {}
    for failure in await red_of(state, work.context):
        if failure.id in oracle.must_turn[check.name] and not _is_example(failure.id, check):
            path, _, name = failure.id.partition("::")
            function = test_of(failure.id).rpartition("::")[2]
            home = next((each.path for each in failure.frames if each.function.rpartition(".")[2] == function), path)
            found.setdefault(home, []).append(VerdictId(f"{home}::{name}"))
    texts = {path: await read_text(work.task.sandbox.base, path) for path in sorted(found)[:MOST_FILES]}
    return {path: (text, sorted(found[path])) for path, text in texts.items() if isinstance(text, str)}


async def _rivals(state: State, work: Work, candidate: Candidate) -> dict[str, Edits]:
    """The round's other plausible candidates, by their refs."""
    refs = [*(verdict[0] for verdict in state.get("passed", [])), *state.get("allowed", [])]
    rivals = {ref: (await work.context.recall(Candidate, ref)).edits for ref in refs[:RIVALS]}
    return {ref: edits for ref, edits in rivals.items() if edits != candidate.edits}


def _dropped(state: State, contradicted: dict[str, str]) -> Contest:
    """Fail rivals that meet the same objection as the winner, without proving them. None of them is an alternative any more."""
    failed = [
        [ref, pack(Verification(False, f"challenge objects: {why}", judge="opinion"))] for ref, why in contradicted.items()
    ]
    return {
        "allowed": [ref for ref in state.get("allowed", []) if ref not in contradicted],
        "passed": [verdict for verdict in state.get("passed", []) if verdict[0] not in contradicted],
        "failed": failed,
        "alternatives": max(0, state.get("alternatives", 0) - 1 - len(contradicted)),
    }


def _is_example(id_: VerdictId, check: Check) -> bool:
    return is_doctest(id_.partition("::")[0].casefold(), id_, check.reader)


async def _written(
    state: State, work: Work, candidate: Candidate, check: Check, texts: Tests
) -> tuple[generated_tests.TestFindings | None, Contest]:
    """Run tests that a model writes from the specification; None if there is no specification, or no model to write them.

    The model writes them without seeing the change, so they serve all changes of the same functions.
    """
    context = work.context
    functions = await asyncio.to_thread(touched, [candidate.edits])
    told = await asyncio.to_thread(specification, functions)
    if context.models is None or not work.task.policy.writes_tests or not told:
        return None, {}
    if work.ledger.model_spent_up() is not None:
        return generated_tests.TestFindings(), {}
    red = [id_ for _, ids in texts.values() for id_ in ids]
    known = await asyncio.to_thread(failing_tests, {path: text for path, (text, _) in texts.items()}, red)
    names = tuple(function.name for function in functions.functions)
    blind = hashlib.sha256(f"{told}\0{known}".encode("utf-8", "surrogatepass")).hexdigest()
    had = state.get("written", {})
    update = Contest()
    if blind in had:
        tests = await context.recall(tuple[str, ...], had[blind])
    else:
        brief = generated_tests.Brief(names, told, known)
        try:
            tests, cost = await generated_tests.ask(
                context.models,
                brief,
                seconds=min(context.models.settings("challenge").timeout, work.ledger.seconds_left() / 3),
                emit=context.emit,
            )
        except ModelError as error:
            why = f"The model wrote no tests from the specification: {error}."
            update |= await fell_back(work, "challenge", why, error.usage)
            return generated_tests.TestFindings(tells=not error.is_outage), update
        update = {"written": {**had, blind: await context.keep(tests)}, "usage": [pack(cost)]}
    folder = next(iter(texts), "").rpartition("/")[0]
    at = f"{folder}/" if folder else ""
    return await generated_tests.run(work, check, at, tests, candidate.edits, told, known), update
