"""The engine's input: one commit to repair, and the policy for it. Values only.

Knows nothing about GitHub, the database, Redis or settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from agent.contract.budget import Budget
from agent.contract.last_good import History, LastGood
from agent.contract.proposal import is_model, is_search
from agent.contract.question import Autonomy
from agent.contract.verdicts import Check, CheckRun
from sandbox.base import Packages, Sandbox

USUAL, USUAL_CLEAR = 0.85, 0.65  # confidence that a change needs; that a clear one of the search needs


@dataclass(frozen=True, slots=True)
class Policy:
    """What a repair may do in this repository. The repository's configuration can only narrow it, or allow edits of tests."""

    allow_test_edits: bool = False
    allow_snapshots: bool = False  # project fixers may update recorded test outputs
    protected: tuple[str, ...] = ()  # further globs of files that are never edited
    max_files: int = 10
    max_changed_lines: int = 400
    allow_reversals: bool = False  # a repair may take back what the last change did
    rungs: tuple[str, ...] = ("tools", "history", "patterns", "model")
    autonomy: Autonomy = "full"
    publishes: bool = True  # a repair becomes a pull request, for which a person may be asked
    allow_evaluation: bool = False  # a change may run text as code; people are asked about it
    refuses: tuple[str, ...] = ()  # rules of the guard that refuse a change, instead of asking people about it
    min_confidence: float | None = None  # 0..1; a verified change needs it to be published; None: see `least`
    min_model_confidence: float | None = None  # the same for a model's change; None: `min_confidence`
    demanded_confidence: float = 0.0  # by the repository: no change needs less
    head_start: float = 5.0  # seconds of search before a model is asked beside it; 0 asks at once
    critic: bool = True  # a model reviews what is proven
    debugger: bool = True  # a model looks for the cause with tools, before it is asked for further changes
    strategies: int | None = None  # ways to ask a model in one round; None: as many as model, budget and diagnosis suggest
    writes_tests: bool = True  # a model writes tests from the specification of what is proven
    guidance: str = ""  # the repository's hints for repairs: shown to models as data, never as instructions

    def least(self, rung: str, *, clear: bool) -> float:
        """The confidence that a change of this rung needs; below it, it is shown as a suspect.

        `clear`: nothing speaks against the change, and there is no model, whose change is right more often.
        """
        usual = USUAL_CLEAR if clear and is_search(rung) else USUAL
        chosen = self.min_model_confidence if is_model(rung) else None
        chosen = self.min_confidence if chosen is None else chosen
        return max(self.demanded_confidence, usual if chosen is None else chosen)


@dataclass(frozen=True, slots=True)
class Task:
    """One commit to repair, unpacked in its sandbox with its dependencies installed."""

    id: str  # the attempt's id, and the checkpoints' thread
    sandbox: Sandbox
    checks: tuple[Check, ...]  # those that failed in CI, or were detected
    policy: Policy = Policy()
    budget: Budget = Budget()
    hints: tuple[str, ...] = ()  # log excerpts of the failing job, a user's comment: quoted as data
    environment: str = ""  # for the evidence
    approximated: tuple[str, ...] = ()  # differences from CI, for the evidence
    packages: Packages = field(default_factory=Packages)  # what is installed; installed again if a change touches its manifest
    reported_ids: tuple[str, ...] = ()  # tests that failed in CI, as its log names them; hints, never verdicts
    failed_in_ci: bool = False  # whether CI reports a failed job
    seed: int | None = None  # random seed of the run in CI, from its log
    clock: datetime | None = None  # start of the run in CI
    # Runs from a replay or of the caller: at most one for each check; failing ones were in fresh workspaces.
    replayed: tuple[CheckRun, ...] = ()
    heals_flakiness: bool = False  # someone asked to repair flaky failures too
    good: tuple[LastGood, ...] = ()  # commits that may be the last good one, the most likely first; without patches
    history: History | None = None  # older ones, which are looked through if the failing checks fail at all of `good`
