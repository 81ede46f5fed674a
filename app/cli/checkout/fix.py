"""`selfheal fix`: heal a local checkout, and hand on the patch with what proves it (`showing`).

Progress goes to standard error, the result to standard output; where that is piped, it is the patch alone, so that
`selfheal fix . | git apply` works, and everything else is said on standard error. The checkout is read, never written, unless
`apply` is set.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from agent.blobs import MemoryBlobs
from agent.case import Case
from agent.contract.outcome import NoRepair, Repair
from agent.question import Waiting
from app.cli import terminal
from app.cli.checkout import checkout
from app.cli.checkout import local_engine as local
from app.cli.checkout.job_selection import Wish
from app.cli.checkout.progress import Screen
from app.settings import Settings
from sandbox.base import SandboxError

if TYPE_CHECKING:
    from agent.ci.job.selection import ChosenJob


async def run(root: Path, settings: Settings, *, wish: Wish, flaky: bool, apply: bool, json: bool) -> bool:
    """Heal the checkout at `root`; True when a verified repair was found (and, with `apply`, written). Raises `NoSuchJob`."""
    job = await _job(root, wish) if wish.names_a_job else None
    progress = terminal.console(stderr=True)
    screen = Screen(progress, time.monotonic())
    async with screen.working("Healing"):
        result = await _heal(root, settings, screen, (job, wish.test), flaky=flaky)
    from app.cli.checkout.result import show  # tables and colours: nobody should wait for them before the work begins

    applied, problem = False, None
    if isinstance(result, Repair) and apply:
        try:
            await checkout.apply(root, result.edits)
            applied = True
        except (checkout.CheckoutChanged, checkout.CheckoutUnwritable) as error:
            problem = str(error)
    show(screen, result, applied=applied, problem=problem, json=json)
    return isinstance(result, Repair) and problem is None


async def _job(root: Path, wish: Wish) -> ChosenJob | None:
    from app.cli.checkout.workflow_jobs import choose

    job = (await asyncio.to_thread(choose, root, wish)).job
    return None if job is None else replace(job, run=await checkout.commit(root))


async def _heal(
    root: Path, settings: Settings, screen: Screen, asked: tuple[ChosenJob | None, str | None], *, flaky: bool
) -> Repair | NoRepair:
    job, test = asked
    configuration = local.configuration(root)
    if isinstance(configuration, NoRepair):
        return configuration
    try:
        engine = await local.engine(settings, screen)
        # Nothing is published, and whoever asked is there: whatever the repository says, no person is waited for.
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
        assert not isinstance(result, Waiting), "nobody is asked: nothing is published"
        return result
    except checkout.CheckoutUnreadable as error:
        return local.unreadable(error)
    except SandboxError as error:
        return local.failed(error)
