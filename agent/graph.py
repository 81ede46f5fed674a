"""Defines the whole graph: the repair of one task.

    reproduce ─fails─▶ compare ─▶ localize ─▶ recall ─▶ climb ─a rung─▶ diagnose? ─▶ propose × strategies ─▶ guard
        │ not every time: probe                        ▲  │                                                   │
        │                                              │  └─none left, no budget─▶ report                     │ allowed
        │                                              └─────── reflect ◀──────── refused ────────────────────┤
        │                                       objected ▲ ▲ not proven ▲ failed                              ▼
        └─▶ report ◀─ approve ◀─ weigh ◀─ second opinions ◀─┴─┴─ prove ◀─┴──── select ◀──────── verify × candidates

Every finished step is checkpointed, so that another worker can resume after a kill. A step can run twice; its result counts
once. A step needs nothing outside the state, the blobs and the `Context`. When a person is asked (`approve`, `approve_round`),
the repair waits in its checkpoint.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send

from agent.checks.oracle import oracle_of
from agent.checks.runner import Runner
from agent.contract.blobs import BlobMissing
from agent.contract.budget import Ledger, Usage
from agent.contract.events import Degraded
from agent.contract.outcome import ConfirmedFailure, NoRepair, Repair
from agent.contract.proposal import Edits, is_model
from agent.contract.question import Question, Reply, Waiting
from agent.contract.task import Task
from agent.contract.verdicts import CheckRun, Oracle
from agent.gate.gate import is_green
from agent.nodes.approve import approve, approve_round, asks_before
from agent.nodes.challenge import challenge
from agent.nodes.climb import climb, is_left_to_a_model
from agent.nodes.compare import compare
from agent.nodes.guard import guard
from agent.nodes.localize import localize
from agent.nodes.probe import probe
from agent.nodes.propose import COLLECT, diagnose, propose
from agent.nodes.prove import prove
from agent.nodes.recall import recall
from agent.nodes.reflect import reflect
from agent.nodes.report import report
from agent.nodes.reproduce import base_round, reproduce
from agent.nodes.review import review
from agent.nodes.select import select
from agent.nodes.verify import verify
from agent.nodes.weigh import weigh
from agent.proposers.model import DIRECT
from agent.report.recording import Step, recorded
from agent.state import Bookkeeping, Context, Opinion, State, Work, pack, spent, unpack

GRAPH_VERSION = 6  # increase it when a node is renamed or the meaning of the state changes
MOST_STEPS = 1000  # stops an endless loop; the budget ends a repair long before
ABREAST = 4  # candidates of a model that are verified in parallel if the checks are brief; otherwise one at a time

STEPS: dict[str, Step] = {
    "reproduce": reproduce,
    "probe": probe,
    "compare": compare,
    "localize": localize,
    "recall": recall,
    "climb": climb,
    "approve_round": approve_round,
    "diagnose": diagnose,
    "propose": propose,
    "guard": guard,
    "verify": verify,
    "select": select,
    "prove": prove,
    "weigh": weigh,
    "approve": approve,
    "reflect": reflect,
    "report": report,
}
OPINIONS: dict[str, Step] = {"challenge": challenge, "review": review}
"""Second opinions on the proven candidate, in order. Each can object; the extensions' opinions come after them."""


Flow = CompiledStateGraph[State, Work, State, State]  # the run's `Work` is passed at its start and never stored


def build(checkpointer: BaseCheckpointSaver[str], opinions: tuple[Opinion, ...] = ()) -> Flow:
    """The compiled flow with this checkpointer."""
    return _compiled(opinions).copy({"checkpointer": checkpointer})


@functools.lru_cache(maxsize=8)  # compiling takes longer than many steps
def _compiled(opinions: tuple[Opinion, ...]) -> Flow:
    """The flow: nodes, edges, and the conditions that choose between them."""
    graph = StateGraph(State, context_schema=Work)
    for name, step in STEPS.items():
        graph.add_node(name, _recorded(name, step))
    graph.add_edge(START, "reproduce")
    graph.add_conditional_edges("reproduce", is_red)
    graph.add_conditional_edges("probe", is_red, ["compare", "report"])
    graph.add_conditional_edges("compare", is_this_change)
    graph.add_edge("localize", "recall")
    graph.add_edge("recall", "climb")
    graph.add_conditional_edges("climb", who_is_asked, ["report", "approve_round", "diagnose", "propose"])
    graph.add_conditional_edges("approve_round", who_proposes, ["report", "diagnose", "propose"])
    graph.add_conditional_edges("diagnose", in_every_strategy, ["propose"])
    graph.add_edge("propose", "guard")
    graph.add_conditional_edges("guard", what_is_left, ["verify", "select", "reflect", "climb"])
    graph.add_edge("verify", "select")
    graph.add_conditional_edges("select", has_winner)
    last = "prove"
    for name, step in (*OPINIONS.items(), *((opinion.name, opinion.step) for opinion in opinions)):
        graph.add_node(name, _recorded(name, step))
        graph.add_conditional_edges(last, _is_accepted_then(name), [name, "reflect"])
        last = name
    graph.add_conditional_edges(last, _is_accepted_then("weigh"), ["weigh", "reflect"])
    graph.add_conditional_edges("weigh", _is_accepted_then("approve"), ["approve", "reflect"])
    graph.add_conditional_edges("approve", is_approved)
    graph.add_conditional_edges("reflect", what_is_left, ["verify", "select", "reflect", "climb"])
    graph.add_edge("report", END)
    return graph.compile()


def is_red(state: State) -> Literal["compare", "probe", "report"]:
    if "ending" in state:
        return "report"
    return "compare" if "oracle_ref" in state else "probe"


def is_this_change(state: State) -> Literal["localize", "report"]:
    return "report" if "ending" in state else "localize"


def who_is_asked(state: State, runtime: Runtime[Work]) -> str | list[Send]:
    """A person if the autonomy setting requires it, otherwise the rung; `report` when the ladder or the budget ends."""
    is_asking = state["strategies"] not in ([], [COLLECT]) and asks_before(state, runtime.context.task.policy.autonomy)
    return "approve_round" if is_asking else who_proposes(state, runtime)


def who_proposes(state: State, runtime: Runtime[Work]) -> str | list[Send]:
    if not state["strategies"] or "ending" in state:
        return "report"
    if state["strategies"] == [COLLECT]:
        return in_every_strategy(state)
    is_sought = (
        is_model(_work(state, runtime).ladder[state["rung"]].rung)
        and not state.get("diagnosis")
        and any(strategy.partition(":")[0] != DIRECT for strategy in state["strategies"])
    )
    return "diagnose" if is_sought else in_every_strategy(state)


def in_every_strategy(state: State) -> list[Send]:
    return [Send("propose", {**state, "strategy": strategy}) for strategy in state["strategies"]]


def what_is_left(state: State, runtime: Runtime[Work]) -> str | list[Send]:
    """First learn from failures, then judge the remaining candidates, then choose the next rung."""
    if state.get("failed"):
        return "reflect"
    work = _work(state, runtime)
    if work.ledger.seconds_left() > 0 and not is_left_to_a_model(state, work):
        if state.get("passed"):
            return "select"
        if allowed := state.get("allowed"):
            together = [ref for ref in allowed if ref not in state.get("alone", [])][:ABREAST]
            is_parallel = state.get("is_brief") and any(is_model(each.rung) for each in work.ladder[state["rung"] :][:1])
            judged = together if is_parallel and together else allowed[:1]
            return [Send("verify", {**state, "judging": ref, "beside": len(judged) - 1}) for ref in judged]
    return "climb"


def has_winner(state: State) -> Literal["prove", "reflect"]:
    return "prove" if state["winner"] else "reflect"


def _is_accepted_then(following: str) -> Callable[[State], str]:
    def is_accepted(state: State) -> str:
        return following if state.get("winner") and not state.get("objection") else "reflect"

    return is_accepted


def is_approved(state: State) -> Literal["report", "reflect"]:
    return "report" if state.get("winner") or "ending" in state else "reflect"


async def repair(task: Task, context: Context, reply: Reply | None = None) -> Repair | NoRepair | Waiting:
    """Heal one task. Resumes from the checkpoint of thread `task.id`; if that has ended, returns its result again.

    `reply` answers the question that it waits for. Raises `sandbox.base.SandboxLost` and `SandboxUnavailable`; the caller can
    open another sandbox and call again.
    """
    run = Work(task, context, Runner(task.sandbox), Ledger(task.budget, 0, Usage(), 0.0, 0.0, context.monotonic))
    saver = context.checkpointer or InMemorySaver()  # which keeps nothing after this call
    graph = build(saver, context.opinions)
    try:
        return await _run(run, graph, saver, reply)
    except BlobMissing as error:
        why = f"Repair restarted: its stored content is gone ({str(error)[:12]}…)"
        await context.emit(Degraded(text=why, step="resume", why=why))
        await saver.adelete_thread(task.id)
        return await _run(run, graph, saver, None)


async def confirm(task: Task, context: Context) -> ConfirmedFailure | NoRepair:
    """Run only the first steps of the same flow, to confirm the failure here. Keeps no checkpoint.

    Raises `SandboxError` when the sandbox is lost.
    """
    graph = build(InMemorySaver(), context.opinions)
    config = RunnableConfig(configurable={"thread_id": task.id})
    run = Work(task, context, Runner(task.sandbox), Ledger(task.budget, 0, Usage(), 0.0, 0.0, context.monotonic))
    await run.runner.prepare()
    await graph.ainvoke(_start(context), config, context=run, interrupt_before=["localize"])
    state: State = (await graph.aget_state(config)).values  # type: ignore[assignment]
    if "result" in state:
        return await context.recall(NoRepair, state["result"][1])
    oracle = await context.recall(Oracle, state["oracle_ref"])
    base = await context.recall(tuple[CheckRun, ...], state["base_ref"])
    return ConfirmedFailure(oracle, base, tuple(state.get("notes", ())))


async def keep_green(task: Task, context: Context, edits: Edits) -> str | None:
    """Whether all checks pass before a change, and as many with it: None, or else why not, a sentence.

    Raises `SandboxError` when the sandbox is lost.
    """
    run = Work(
        task, context, Runner(task.sandbox), Ledger(task.budget, 0, Usage(), 0.0, context.monotonic(), context.monotonic)
    )
    await run.runner.prepare()
    base = await base_round(run)
    oracle = replace(oracle_of(task.checks, [base]), seen_once=True)
    if not all(each.ending == "finished" and each.green and not each.red for each in base):
        return "Not all checks pass there without it."
    judged = await is_green(run, oracle, {each.check: each for each in base}, edits)
    return None if judged.passed else f"It was refused because {judged.reason}."


async def standing(task_id: str, context: Context) -> Repair | NoRepair | Waiting | None:
    """What `repair` would return without running a step, and so without a sandbox; None if there is work to do."""
    if context.checkpointer is None:
        return None
    config = RunnableConfig(configurable={"thread_id": task_id})
    snapshot = await build(context.checkpointer, context.opinions).aget_state(config)
    known: State = snapshot.values  # type: ignore[assignment]
    if known.get("version") != version(context.opinions):
        return None
    try:
        return await _result(known, context) if "result" in known else _waiting(snapshot)
    except BlobMissing:
        return None


async def _run(run: Work, graph: Flow, saver: BaseCheckpointSaver[str], reply: Reply | None) -> Repair | NoRepair | Waiting:
    task, context = run.task, run.context
    config = RunnableConfig(configurable={"thread_id": task.id}, recursion_limit=MOST_STEPS)
    snapshot = await graph.aget_state(config)
    known: State = snapshot.values  # type: ignore[assignment]
    if known and known.get("version") != version(context.opinions):
        why = f"Repair restarted: its checkpoint has graph version {known.get('version')}, not {version(context.opinions)}"
        await context.emit(Degraded(text=why, step="resume", why=why))
        known = {}
    if "result" in known:
        return await _result(known, context)
    start: Any = None
    if not known:
        await saver.adelete_thread(task.id)
        start = _start(context)
    elif (waiting := _waiting(snapshot)) is not None:
        if reply is None or not reply.answers(waiting):
            return waiting
        start = Command(resume=pack(reply))
    await run.runner.prepare()
    try:
        await graph.ainvoke(start, config, context=run, durability="sync")
    finally:
        await run.background.stop()
    snapshot = await graph.aget_state(config)
    return _waiting(snapshot) or await _result(snapshot.values, context)  # type: ignore[arg-type]


def _start(context: Context) -> State:
    return {"version": version(context.opinions), "seconds": 0.0}


def version(opinions: tuple[Opinion, ...]) -> str:
    """Version of the flow. A checkpoint cannot be resumed after a step was added or removed."""
    return " ".join([str(GRAPH_VERSION), *(opinion.name for opinion in opinions)])


def _waiting(snapshot: Any) -> Waiting | None:
    """The question that the repair waits for, if any."""
    asked = [asking for task in snapshot.tasks for asking in task.interrupts]
    return Waiting(unpack(Question, asked[0].value), spent(snapshot.values), asked[0].id) if asked else None


async def _result(state: State, context: Context) -> Repair | NoRepair:
    kind, ref = state["result"]
    return await context.recall(Repair, ref) if kind == "repair" else await context.recall(NoRepair, ref)


def _work(state: State, runtime: Runtime[Work]) -> Work:
    """What a step works with, with a ledger of what is spent so far."""
    run = runtime.context
    iterations, seconds, now = state.get("iteration", 0), state.get("seconds", 0.0), run.context.monotonic
    return replace(run, ledger=Ledger(run.task.budget, iterations, spent(state), seconds, now(), now))


def _recorded(name: str, step: Step) -> Any:
    """A node that reports the step's start and end, and records its time."""

    async def node(state: State, runtime: Runtime[Work]) -> Bookkeeping:
        return await recorded(name, step, state, _work(state, runtime))

    return node
