"""`selfheal fix`: repair a local checkout.

Progress goes to standard error, the result to standard output. If standard output is a pipe, it receives only the patch, so
that `selfheal fix . | git apply` works. The checkout is never written unless `apply` is set.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from agent.case import Case
from agent.contract.blobs import MemoryBlobs
from agent.contract.outcome import NoRepair, Repair
from agent.contract.question import Waiting
from app.cli import terminal
from app.cli.checkout import checkout, local_engine
from app.cli.checkout.job_selection import JobSelection
from app.cli.checkout.progress import Screen
from app.settings import Settings
from sandbox.base import SandboxError

if TYPE_CHECKING:
    from agent.ci.job.selection import ChosenJob


async def run(root: Path, settings: Settings, *, selection: JobSelection, flaky: bool, apply: bool, json: bool) -> bool:
    """Repair the checkout at `root`; True if a verified repair was found (and, with `apply`, written). Raises `NoSuchJob`."""
    job = await _job(root, selection) if selection.names_a_job else None
    progress = terminal.console(stderr=True)
    screen = Screen(progress, time.monotonic())
    async with screen.working("Repairing"):
        result = await _heal(root, settings, screen, (job, selection.test), flaky=flaky)
    from app.cli.checkout.result import show  # imported late: tables and colours are not needed before

    applied, problem = False, None
    if isinstance(result, Repair) and apply:
        try:
            await checkout.apply(root, result.edits)
            applied = True
        except (checkout.CheckoutChanged, checkout.CheckoutUnwritable) as error:
            problem = str(error)
    show(screen, result, applied=applied, problem=problem, json=json)
    return isinstance(result, Repair) and problem is None


async def _job(root: Path, selection: JobSelection) -> ChosenJob | None:
    from app.cli.checkout.workflow_jobs import find_job

    job = (await asyncio.to_thread(find_job, root, selection)).job
    return None if job is None else replace(job, run=await checkout.commit(root))


async def _heal(
    root: Path, settings: Settings, screen: Screen, target: tuple[ChosenJob | None, str | None], *, flaky: bool
) -> Repair | NoRepair:
    job, test = target
    configuration = local_engine.configuration(root)
    if isinstance(configuration, NoRepair):
        return configuration
    try:
        engine = await local_engine.engine(settings, screen)
        # Nothing is published, so no approval is needed, whatever the repository's configuration says.
        configuration = replace(configuration, autonomy=None)
        case = Case(
            id=uuid4().hex,
            label=root.name,
            archive=checkout.packed(root),
            jobs=() if job is None else (job,),
            configuration=configuration,
            command=test,
            heals_flakiness=flaky,
        )
        result = await engine.heal(case, blobs=MemoryBlobs(), emit=screen.emit)
        assert not isinstance(result, Waiting), "no approval is requested, as nothing is published"
        return result
    except checkout.CheckoutUnreadable as error:
        return local_engine.unreadable(error)
    except SandboxError as error:
        return local_engine.failed(error)
