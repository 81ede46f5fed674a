"""What goes into the engine: one commit to heal and what may be done there, as values.

This room knows nothing of GitHub, the database, Redis or settings.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime

from agent.contract.budget import Budget
from agent.contract.verdicts import Check, CheckRun
from agent.question import Autonomy
from sandbox.base import Packages, Sandbox


@dataclass(frozen=True, slots=True)
class Policy:
    """What a repair may do in this repository; a repository's own configuration can only narrow it."""

    allow_test_edits: bool = False
    allow_snapshots: bool = False  # the tools may write recorded outputs of tests anew
    protected: tuple[str, ...] = ()  # further globs that are never edited
    max_files: int = 10
    max_changed_lines: int = 400
    rungs: tuple[str, ...] = ("tools", "patterns", "model")
    autonomy: Autonomy = "full"
    guidance: str = ""  # what the repository tells whoever repairs it: shown to models as data, never as instructions


@dataclass(frozen=True, slots=True)
class Task:
    """One commit to heal: its sandbox is unpacked and its dependencies are installed."""

    id: str  # names the thread of checkpoints; the attempt's id
    sandbox: Sandbox
    checks: tuple[Check, ...]  # what failed in CI, or what was detected
    policy: Policy = Policy()
    budget: Budget = Budget()
    hints: tuple[str, ...] = ()  # excerpts of the failing job's log, a person's words: quoted as data
    environment: str = ""  # for the evidence
    approximated: tuple[str, ...] = ()  # the same: what is not as in CI
    packages: Packages = field(default_factory=Packages)  # what was installed; anew where a change touches what names it
    told: tuple[str, ...] = ()  # ids of tests that CI saw fail, as its log names them; hints, never verdicts
    seed: int | None = None  # of the run in CI, as its log tells it
    clock: datetime | None = None  # when that run was
    replayed: tuple[CheckRun, ...] = ()  # red runs of checks in fresh workspaces, from a replay: at most one each
    heals_flakiness: bool = False  # a person asked to repair also what comes and goes
