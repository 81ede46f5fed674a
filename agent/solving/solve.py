"""Writes code from a specification: the repair graph with another beginning.

    design ─▶ blind tests ─▶ first answers ─passed─▶ adversarial tests ─passed─▶ solved
                                  │ failed                 │ failed
                                  └──▶ disputes ──▶ repair the best answer

The first answers are changes of a file whose bodies are missing, so they pass the same gate as a repair: the tests fail
without them, pass with them, and the second opinions read them. If none passes, the best one is repaired like any other code. A
test that a model wrote can be wrong: before code is repaired for its sake, the specification decides who is right.
"""

from __future__ import annotations

import time
from dataclasses import replace
from uuid import uuid4

from agent.contract import words
from agent.contract.budget import Budget, Meter
from agent.contract.events import Emit, StepDone, StepStarted
from agent.contract.outcome import Outcome
from agent.engine import Engine
from agent.models.router import Models
from agent.models.values import OutOfBudget
from agent.solving import contract
from agent.solving.draft import Draft, designed, unnamed, without_model
from agent.solving.events import of_answers
from agent.solving.run import ALLOW_MORE, Run
from agent.solving.solution import Declined, Keep, Options, Solution, Start, undesigned
from agent.solving.specification import Specification
from agent.solving.writer import Writer, Writing


async def solve(
    spec: Specification,
    engine: Engine,
    *,
    emit: Emit,
    options: Options | None = None,
    start: Start | None = None,
    keep: Keep = lambda _: None,
) -> Solution:
    """Write the code. A `start` replaces the design, and perhaps more. `keep` gets each progress, to fork a run that is killed.

    Without a design, the first answer names a function without a name. Raises `Declined`, `ModelError` if there is no design or
    no name though the budget allows it, or the model is misconfigured, and `SandboxError` if the infrastructure fails.
    """
    models, options = engine.models, options or Options()
    assert models is not None, "the caller checks"
    engine = replace(engine, budget=_budget(engine.budget, options))
    emit, meter = of_answers(emit), Meter(replace(engine.budget, reserve=0.0))
    models = models.metered(meter)
    writer, draft = None, start.draft if start is not None else None
    try:
        if draft is None and not options.design and not spec.name:
            writing = Writing(options.candidates, options.decode, options.temperature)
            writer = Writer(models, spec, unnamed(spec), writing, names=True)
            await emit(StepStarted(step="name", text="Writing the first answer, which names the function"))
            draft = await writer.name_it(engine.budget.seconds / 2, emit)
        draft = draft or await _drafted(spec, models, engine.budget.seconds / 2, emit, options)
    except OutOfBudget as error:
        ended = undesigned(spec, error, Outcome.OUT_OF_BUDGET, next_step=ALLOW_MORE, seconds=meter.seconds)
        return replace(ended, reason=f"There is no code: {error}.")
    start, confirmed = start or Start(draft), None
    if options.confirm is not None:
        asked = time.monotonic()
        confirmed = await options.confirm(draft)
        if confirmed is False:
            raise Declined("stopped: the design was not confirmed. Say more in the specification, or give a --signature")
        meter.began += time.monotonic() - asked  # the user's time is not the budget's
    run = Run(spec, engine, models, emit, options, keep, uuid4().hex, draft, meter, hint=start.hint, writer=writer)
    keep(run.progress())
    run.tests = contract.contract_files(spec, draft, confirmed=bool(confirmed)) if start.tests is None else dict(start.tests)
    run.drafted = {contract.DRAFTED.format(at): each for at, each in enumerate(draft.examples, 1)}
    if options.spec_tests and start.tests is None:
        await run.write_blind_tests()
    run.with_some_test()
    keep(run.progress())
    return await run.to_the_end(start.answer)


def _budget(budget: Budget, options: Options) -> Budget:
    """The budget with the limits that the user chose."""
    chosen = {
        name: value for name in ("iterations", "seconds", "tokens", "cost") if (value := getattr(options, name)) is not None
    }
    return replace(budget, **chosen)


async def _drafted(spec: Specification, models: Models, seconds: float, emit: Emit, options: Options) -> Draft:
    """By a model if the user did not give both signature and examples. Raises `ModelError`."""
    if not options.design or (spec.signature and spec.examples):
        return without_model(spec)
    started = time.monotonic()
    await emit(StepStarted(step="design", text="Designing the signature and examples"))
    draft = await designed(spec, models, emit, seconds=seconds)
    text = f"Designed {words.code(draft.signature or draft.path, 200)}"
    await emit(StepDone(step="design", text=text, seconds=time.monotonic() - started))
    return draft
