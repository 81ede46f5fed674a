"""Loads rungs and second opinions that other packages add by entry points (see `docs/extending.md`).

    selfheal.rungs    a factory without arguments that makes an `agent.proposer.Proposer`
    selfheal.nodes    a factory without arguments that makes an `agent.state.Opinion`

They are loaded once, when a worker starts; an error names the distribution of a broken one. Installed packages are the
operator's choice and trusted like Selfheal itself. Still, if an extension fails during an attempt, only its own contribution is
lost, not the attempt. Metrics, benchmarks and providers are loaded where they are used.
"""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from dataclasses import dataclass, replace
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from agent.contract.blobs import BlobMissing
from agent.contract.extension import BrokenExtension, broken
from agent.contract.proposal import is_model, rung_kind
from agent.contract.task import Policy
from agent.models.values import ModelError
from agent.proposer import Proposal, Proposer, Situation, Strategist
from agent.state import Opinion, State, Winner, Work, fell_back
from sandbox.base import SandboxError

RUNGS, NODES = "selfheal.rungs", "selfheal.nodes"
_BUILT_IN = Policy().rungs
_NAME = re.compile(r"[a-z][a-z0-9_-]*")
# Import paths of version 0.1, which extensions can still use.
MOVED = {
    "agent.budget": "agent.contract.budget",
    "agent.edits": "agent.edits.changes",
    "agent.events": "agent.contract.events",
    "agent.model": "agent.models.values",
    "agent.outcome": "agent.contract.outcome",
    "agent.proposal": "agent.contract.proposal",
    "agent.proposers.base": "agent.proposer",
    "agent.task": "agent.contract.task",
    "agent.usage": "agent.contract.budget",
    "agent.verdicts": "agent.contract.verdicts",
}


@dataclass(frozen=True, slots=True)
class Placed:
    """An extension's rung, and the built-in rung that it precedes, a name in `Policy.rungs`; "": it comes last."""

    proposer: Proposer
    before: str


@dataclass(frozen=True, slots=True)
class Extensions:
    """The rungs and second opinions that other packages add."""

    rungs: tuple[Placed, ...] = ()
    opinions: tuple[Opinion, ...] = ()

    def ladder(self, own: tuple[Proposer, ...]) -> tuple[Proposer, ...]:
        """The built-in rungs with the extensions' rungs inserted; those with the same `before` are sorted by name."""
        names = dict.fromkeys((*(rung_kind(proposer.rung) for proposer in own), *_BUILT_IN, ""))
        order = {name: at for at, name in enumerate(names)}
        placed = [(order[placed.before], 0, placed.proposer) for placed in self.rungs]
        placed += [(order[rung_kind(proposer.rung)], 1, proposer) for proposer in own]
        return tuple(proposer for _, _, proposer in sorted(placed, key=lambda each: each[:2]))

    def allowed(self, policy: Policy) -> Policy:
        """The policy with the extensions' rungs added: installing an extension allows it."""
        return replace(policy, rungs=(*policy.rungs, *(rung_kind(placed.proposer.rung) for placed in self.rungs)))


def load() -> Extensions:
    """All installed extensions, sorted by name. Raises `BrokenExtension`."""
    _keep_moved_paths()
    rungs = tuple(_rung(point) for point in sorted(entry_points(group=RUNGS), key=lambda point: point.name))
    opinions = tuple(_opinion(point) for point in sorted(entry_points(group=NODES), key=lambda point: point.name))
    _differ(RUNGS, [rung_kind(placed.proposer.rung) for placed in rungs])
    _differ(NODES, [opinion.name for opinion in opinions])
    return Extensions(rungs, opinions)


def _keep_moved_paths() -> None:
    for old, new in MOVED.items():
        module = importlib.import_module(new)
        if new.startswith(f"{old}."):  # the old module is a package now
            vars(importlib.import_module(old)).update({name: value for name, value in vars(module).items() if name[0] != "_"})
        else:
            parent, _, name = old.rpartition(".")
            sys.modules[old] = module
            setattr(importlib.import_module(parent), name, module)


def _rung(point: EntryPoint) -> Placed:
    made = _made(point)
    name, before = getattr(made, "rung", None), getattr(made, "before", "")
    if not isinstance(name, str) or not _NAME.fullmatch(rung_kind(name)):
        raise broken(point, "its `rung` is not a name of lower-case letters, digits, `-` and `_`")
    if rung_kind(name) in _BUILT_IN or is_model(name):
        raise broken(point, f"its `rung`, {name!r}, is the name of a built-in rung")
    if not callable(getattr(made, "can_help", None)) or not inspect.iscoroutinefunction(getattr(made, "propose", None)):
        raise broken(point, "it is not a Proposer: it needs `can_help(situation)` and `async propose(situation)`")
    if before not in (*_BUILT_IN, ""):
        raise broken(point, f"its `before` must be one of {', '.join(_BUILT_IN)}, not {before!r}")
    return Placed(_RungFromOutside(cast(Proposer, made)), before)


def _opinion(point: EntryPoint) -> Opinion:
    from agent.graph import OPINIONS, STEPS  # slow to import, and most installations have no extension

    made = _made(point)
    if not isinstance(made, Opinion) or not inspect.iscoroutinefunction(made.step):
        raise broken(point, "it is not an `agent.state.Opinion` with an `async` step")
    if not _NAME.fullmatch(made.name) or made.name in STEPS or made.name in OPINIONS:
        raise broken(
            point, f"its name, {made.name!r}, must have only lower-case letters, digits, `-`, `_`, and not be a built-in step's"
        )
    return _contained(made)


def _made(point: EntryPoint) -> Any:
    try:
        return point.load()()
    except Exception as error:  # importing and calling an extension can raise anything
        raise broken(point, f"{type(error).__name__}: {error}") from error


def _differ(group: str, names: list[str]) -> None:
    if twice := {name for name in names if names.count(name) > 1}:
        raise BrokenExtension(f"more than one extension of {group} is called {', '.join(sorted(twice))}; uninstall all but one")


class _RungFromOutside:
    """An extension's rung. Its exceptions become notes."""

    def __init__(self, proposer: Proposer) -> None:
        self._proposer = proposer

    @property
    def rung(self) -> str:
        return self._proposer.rung

    def can_help(self, situation: Situation) -> str | None:
        try:
            return self._proposer.can_help(situation)
        except Exception as error:  # noqa: BLE001 - an extension can raise anything
            return f"it failed with {type(error).__name__}: {error}"

    async def propose(self, situation: Situation) -> Proposal:
        try:
            return await self._proposer.propose(situation)
        except (SandboxError, ModelError, BlobMissing):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return Proposal(note=f"it failed with {type(error).__name__}: {error}")

    def strategies(self, situation: Situation) -> tuple[str, ...]:
        try:
            return (self._proposer.strategies(situation) if isinstance(self._proposer, Strategist) else ()) or ("",)
        except Exception:  # noqa: BLE001 - as above; `propose` reports the error
            return ("",)


def _contained(opinion: Opinion) -> Opinion:
    """The opinion, changed so that an error in it neither accepts nor objects: it is reported and lowers the confidence."""

    async def step(state: State, work: Work) -> Winner:
        try:
            return await opinion.step(state, work)
        except (SandboxError, BlobMissing):
            raise
        except Exception as error:  # noqa: BLE001 - as above
            return await fell_back(work, opinion.name, f"`{opinion.name}` failed with {type(error).__name__}: {error}")

    return replace(opinion, step=step)
