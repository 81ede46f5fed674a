"""The repair of one task, whole, on one page.

    reproduce ─red─▶ localize ─▶ propose, rung by rung ─▶ guard ─allowed─▶ verify ─passed─▶ report
        │ not red                  ▲   (before a model:     │ refused        │ failed         ▲
        │                          │    diagnose)           ▼                ▼                │
        │                          └──── another try ──── reflect ◀──────────┘                │
        └─────────────────────────────────────────────────────┴── nothing left, no budget ───┘

Every step is checkpointed when it is done, so that another worker can go on after a kill: a step may run twice, and its result
counts once. Nothing that a step needs lives outside the state, the blobs and the `Context`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from agent import words
from agent.blobs import BlobMissing
from agent.budget import Ledger
from agent.checks import Runner
from agent.events import Degraded, StepDone, StepStarted
from agent.nodes.diagnose import diagnose
from agent.nodes.guard import guard
from agent.nodes.localize import localize
from agent.nodes.propose import propose
from agent.nodes.reflect import reflect
from agent.nodes.report import report
from agent.nodes.reproduce import reproduce
from agent.nodes.verify import verify
from agent.state import Context, State, Work, spent
from agent.task import NoRepair, Repair, Task

GRAPH_VERSION = 1  # raise it when a node is renamed or the state changes its meaning
MOST_STEPS = 1000  # a bound for loops that should not be; the budget ends a repair long before

STEPS: dict[str, Callable[[State, Work], Awaitable[State]]] = {
    "reproduce": reproduce,
    "localize": localize,
    "diagnose": diagnose,
    "propose": propose,
    "guard": guard,
    "verify": verify,
    "reflect": reflect,
    "report": report,
}


@dataclass(frozen=True, slots=True)
class Resources:
    """What every step of one run is lent; LangGraph hands it in and never writes it down."""

    task: Task
    context: Context
    runner: Runner


def build(checkpointer: BaseCheckpointSaver[str]) -> CompiledStateGraph[State, Resources, State, State]:
    """The flow: nodes, edges, and the questions that choose between them."""
    graph = StateGraph(State, context_schema=Resources)
    for name, step in STEPS.items():
        graph.add_node(name, _recorded(name, step))
    graph.add_edge(START, "reproduce")
    graph.add_conditional_edges("reproduce", is_red)
    graph.add_conditional_edges("localize", can_afford_another)
    graph.add_edge("diagnose", "propose")
    graph.add_conditional_edges("propose", what_is_next)
    graph.add_conditional_edges("guard", is_allowed)
    graph.add_conditional_edges("verify", has_passed)
    graph.add_conditional_edges("reflect", what_is_next)
    graph.add_edge("report", END)
    return graph.compile(checkpointer=checkpointer)


def is_red(state: State) -> Literal["localize", "report"]:
    return "report" if "ending" in state else "localize"


def what_is_next(state: State, runtime: Runtime[Resources]) -> Literal["guard", "diagnose", "propose", "report"]:
    """The next of the changes that wait, as long as there is time; then the next proposal, as long as it can be paid."""
    return "guard" if state["pending"] and has_time(state, runtime) else can_afford_another(state, runtime)


def is_allowed(state: State) -> Literal["verify", "reflect"]:
    return "verify" if state["verification"] is None else "reflect"


def has_passed(state: State) -> Literal["report", "reflect"]:
    return "report" if state["verification"]["passed"] else "reflect"


def has_time(state: State, runtime: Runtime[Resources]) -> bool:
    return _work(state, runtime).ledger.seconds_left() > 0


def can_afford_another(state: State, runtime: Runtime[Resources]) -> Literal["diagnose", "propose", "report"]:
    work = _work(state, runtime)
    if state["rung"] >= len(work.ladder) or work.ledger.spent_up() is not None:
        return "report"
    return "diagnose" if work.ladder[state["rung"]].rung.startswith("model") and "diagnosis" not in state else "propose"


async def repair(task: Task, context: Context) -> Repair | NoRepair:
    """Heal one task; goes on from the checkpoint of thread `task.id` if there is one, and repeats a finished one's result.

    Raises `sandbox.base.SandboxLost` and `SandboxUnavailable`: the caller opens another sandbox and calls again.
    """
    try:
        return await _run(task, context, afresh=False)
    except BlobMissing as error:
        why = f"what it had kept is gone ({str(error)[:12]}…), so it starts afresh"
        await context.emit(Degraded(text=why, step="resume", why=why))
        return await _run(task, context, afresh=True)


async def finished(task_id: str, context: Context) -> Repair | NoRepair | None:
    """The result that `repair` would repeat; None while there is something to do, for which it needs a sandbox."""
    config = RunnableConfig(configurable={"thread_id": task_id})
    known: State = (await build(context.checkpointer).aget_state(config)).values  # type: ignore[assignment]
    if "result" not in known or known.get("version") != GRAPH_VERSION:
        return None
    try:
        return await _result(known, context)
    except BlobMissing:
        return None


async def _run(task: Task, context: Context, *, afresh: bool) -> Repair | NoRepair:
    graph = build(context.checkpointer)
    config = RunnableConfig(configurable={"thread_id": task.id}, recursion_limit=MOST_STEPS)
    known: State = {} if afresh else (await graph.aget_state(config)).values  # type: ignore[assignment]
    if known and known.get("version") != GRAPH_VERSION:
        why = f"its checkpoint is of graph {known.get('version')}, this is {GRAPH_VERSION}: it starts afresh"
        await context.emit(Degraded(text=why, step="resume", why=why))
        known = {}
    if "result" not in known:
        if not known:
            await context.checkpointer.adelete_thread(task.id)
        runner = Runner(task.sandbox)
        await runner.prepare()
        start: State | None = None if known else {"version": GRAPH_VERSION, "seconds": 0.0}
        resources = Resources(task, context, runner)
        known = await graph.ainvoke(start, config, context=resources, durability="sync")  # type: ignore[assignment]
    return await _result(known, context)


async def _result(state: State, context: Context) -> Repair | NoRepair:
    kind, ref = state["result"]
    return await context.recall(Repair, ref) if kind == "repair" else await context.recall(NoRepair, ref)


def _work(state: State, runtime: Runtime[Resources]) -> Work:
    lent = runtime.context
    monotonic = lent.context.monotonic
    iterations, seconds = state.get("iteration", 0), state.get("seconds", 0.0)
    ledger = Ledger(lent.task.budget, iterations, spent(state), seconds, monotonic(), monotonic)
    return Work(lent.task, lent.context, lent.runner, ledger)


def _recorded(name: str, step: Callable[[State, Work], Awaitable[State]]) -> Any:
    """A node that tells when it starts and ends, and books its time."""

    async def node(state: State, runtime: Runtime[Resources]) -> State:
        work = _work(state, runtime)
        rung = work.ladder[at].rung if (at := state.get("rung", 0)) < len(work.ladder) else ""
        await work.context.emit(StepStarted(text=words.step(name, rung), step=name))
        update = await step(state, work)
        seconds = work.context.monotonic() - work.ledger.began
        await work.context.emit(StepDone(text="", step=name, seconds=seconds))
        return {**update, "seconds": seconds}

    return node
