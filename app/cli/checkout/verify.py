"""`selfheal verify`: repeat the proof of a repair, from its pull request or a checkout of its commit. Changes nothing.

The repair's commit is fetched into a temporary clone, and judged there as every candidate is: the checks fail before it, pass
with it, and fail again without it. What the pull request's receipt claims is compared with what was seen.
"""

from __future__ import annotations

import json as jsonlib
import re
import shlex
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console

from agent.case import Case
from agent.ci.job.selection import FailedJob
from agent.contract import words
from agent.contract.blobs import MemoryBlobs
from agent.contract.outcome import NoRepair, Repair
from agent.contract.proposal import Candidate, Edits, FileChange
from agent.edits.changes import diff, digest
from app.cli import terminal
from app.cli.checkout import local_engine
from app.cli.checkout.checkout import commit, git, root_of
from app.cli.checkout.fix import evidence_table, say
from app.cli.checkout.last_good import UnknownDifference, contents_of
from app.cli.checkout.local_engine import Screen
from app.cli.checkout.workflow_jobs import JobSelection, job_of
from app.cli.terminal import plain
from app.github.web import PullAddress, pull_text
from app.publish import receipt as receipts
from app.publish.markdown import Quoter
from app.publish.proof import in_one_line
from app.publish.receipt import Receipt
from app.settings import Settings
from sandbox.host import git as host_git

_FILES = 200  # that a repair may change
_SHA = re.compile(r"[0-9a-f]{40,64}")
_REGULAR = ("100644", "100755", "000000")


class NotVerifiable(Exception):
    """There is no repair to verify; the message says why, and what to pass instead."""


@dataclass(frozen=True, slots=True)
class Change:
    """The commit of a repair in a temporary clone, whose files are those of its base."""

    root: Path
    base: str
    head: str
    title: str
    edits: Edits
    receipt: Receipt | None
    is_foreign: bool  # the user need not trust its code


async def run(what: str, settings: Settings, *, selection: JobSelection, json: bool) -> bool:
    """Verify the repair that `what` names: the address of a pull request, or a folder. True if the proof holds.

    Raises `NotVerifiable`, `NotACheckout`, `NoSuchJob`, `NoSuchRevision`.
    """
    screen = Screen(terminal.console(stderr=True), time.monotonic())
    with tempfile.TemporaryDirectory(prefix="selfheal-verify-") as folder:
        async with screen.working("Fetching the repair"):
            change = await _fetched(what, Path(folder) / "checkout", settings, screen)
        async with screen.working("Verifying"):
            result = await _verified(change, settings, selection, screen)
    differences = _differences(change, result)
    if json:
        print(jsonlib.dumps(_as_json(change, result, differences), indent=2))  # noqa: T201 - the command's answer
    else:
        _show(terminal.console(), change, result, differences)
    return isinstance(result, Repair) and not differences


async def _fetched(what: str, root: Path, settings: Settings, screen: Screen) -> Change:
    receipt = None
    address = PullAddress.of(what)
    if address is not None:
        source, ref = address.repository_url, f"refs/pull/{address.number}/head"
        text = await pull_text(address, settings.github_api_url)
        receipt = receipts.read(text) if text is not None else None
        screen.say("" if receipt else "No receipt to compare with: the pull request shows none, or is private", "yellow")
    elif re.match(r"https?://", what):
        raise NotVerifiable(f"{what} is not the address of a pull request, such as https://github.com/OWNER/NAME/pull/1")
    else:
        checkout, _ = await root_of(Path(what), "verify")
        source, ref = str(checkout), "HEAD"
    if problem := await host_git.clone(source, ref, root):
        raise NotVerifiable(f"{what} could not be fetched: {problem}")
    head = await _text(root, "rev-parse", "FETCH_HEAD")
    base = await _base(root, head, receipt)
    if receipt is None:
        screen.say(f"Only one commit is verified: {head[:10]}, after {base[:10]}")
    edits = await _edits(root, base, head)
    if not edits:
        raise NotVerifiable(f"the commit {head[:10]} changes no file; check out a repair's commit, or pass its pull request")
    if problem := await host_git.check_out(base, root):
        raise NotVerifiable(f"the files of {base[:10]} could not be written: {problem}")
    return Change(root, base, head, await _text(root, "show", "-s", "--format=%s", head), edits, receipt, address is not None)


async def _base(root: Path, head: str, receipt: Receipt | None) -> str:
    """The commit that was repaired: the one that the receipt names, if the repair is based on it, else the parent."""
    named = receipt.base if receipt is not None and _SHA.fullmatch(receipt.base) else ""
    if named and await git(root, "merge-base", "--is-ancestor", named, head) is not None:
        return named
    parents = (await _text(root, "show", "-s", "--format=%P", head)).split()
    if len(parents) != 1:
        why = "has no parent" if not parents else "is a merge"
        raise NotVerifiable(f"the commit {head[:10]} {why}, so it is no repair; check out the repair's own commit")
    return parents[0]


async def _edits(root: Path, base: str, head: str) -> Edits:
    told = (await _text(root, "diff-tree", "-r", "-z", "--no-renames", base, head)).split("\0")
    changed = [(head_.split(" "), path) for head_, path in zip(told[::2], told[1::2], strict=False)]
    if len(changed) > _FILES:
        raise NotVerifiable(f"the commit {head[:10]} changes {len(changed):,} files; a repair changes at most {_FILES}")
    ids = [id_ for facts, _ in changed for id_ in facts[2:4] if id_.strip("0")]
    try:
        texts = {id_: content.decode() for id_, content in (await contents_of(root, ids)).items()}
    except UnknownDifference as error:
        raise NotVerifiable(f"the commit {head[:10]} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise NotVerifiable(f"the commit {head[:10]} changes a file that is not text") from error
    if odd := [path for (old, new, *_), path in changed if old.removeprefix(":") not in _REGULAR or new not in _REGULAR]:
        raise NotVerifiable(f"the commit {head[:10]} changes {odd[0]}, which is no regular file")
    return tuple(FileChange(path, texts.get(facts[2]), texts.get(facts[3])) for facts, path in changed)


async def _verified(change: Change, settings: Settings, selection: JobSelection, screen: Screen) -> Repair | NoRepair:
    """Judge the change with the job and the good commit that the receipt names, unless the user names others."""
    receipt = change.receipt
    jobs: tuple[FailedJob, ...] = ()
    if receipt is not None and not selection.names_a_job and selection.test is None:
        jobs = await _jobs(change.root, receipt)
    job = jobs[0] if jobs else await job_of(change.root, selection)
    if selection.good is None and receipt is not None and _SHA.fullmatch(receipt.good):
        selection = replace(selection, good=receipt.good)

    async def judge(case: Case) -> Repair | NoRepair:
        engine = await local_engine.engine(settings, screen, trusted=not change.is_foreign)
        rung = receipt.rung if receipt is not None and receipt.rung else "given"
        candidate = Candidate(rung, change.edits, change.title)
        return await engine.verify(replace(case, jobs=jobs or case.jobs), candidate, blobs=MemoryBlobs(), emit=screen.emit)

    return await local_engine.on_checkout(change.root, job, selection, judge)


async def _jobs(root: Path, receipt: Receipt) -> tuple[FailedJob, ...]:
    """The jobs that failed in CI, with the text of their workflows at the base."""
    run = await commit(root)
    found = []
    for job in receipt.jobs:
        text = await git(root, "show", f"HEAD:{job.workflow}") if job.workflow and job.workflow.isprintable() else None
        workflow = text.decode("utf-8", "replace") if text is not None else None
        found.append(FailedJob(job.name, workflow, job.workflow, job.step or None, run=run))
    return tuple(found)


def _differences(change: Change, result: Repair | NoRepair) -> tuple[str, ...]:
    """What the receipt claims and this machine did not see, a sentence each."""
    receipt = change.receipt
    if receipt is None or isinstance(result, NoRepair):
        return ()
    found = []
    if receipt.base != change.base:
        found.append(f"The receipt is for a repair of {receipt.base[:10]}, and this one is of {change.base[:10]}.")
    if receipt.repair != digest(change.edits):
        found.append("The files differ from those that were proven: somebody changed the repair since.")
    seen = {receipts.quoted(id_, Quoter()) for check in result.evidence.checks for id_ in check.target}
    if missing := [id_ for check in receipt.checks for id_ in check.failing if id_ not in seen]:
        found.append(f"The receipt names failing results that did not fail here: {words.named(missing)}.")
    return tuple(found)


def _as_json(change: Change, result: Repair | NoRepair, differences: Sequence[str]) -> dict[str, Any]:
    """The same keys for every result; missing values are null or empty."""
    repair = result if isinstance(result, Repair) else None
    ended = result if isinstance(result, NoRepair) else None
    return {
        "verified": repair is not None and not differences,
        "outcome": ended.outcome.value if ended else "verified",
        "reason": _reason(ended) if ended else None,
        "base": change.base,
        "head": change.head,
        "title": change.title,
        "diff": diff(change.edits),
        "evidence": asdict(repair.evidence) if repair else None,
        "confidence": repair.confidence if repair else None,
        "doubts": list(repair.doubts) if repair else [],
        "receipt": msgspec.to_builtins(change.receipt) if change.receipt else None,
        "differences": list(differences),
    }


def _reason(ended: NoRepair) -> str:
    """Why the proof failed: the verdict on the change, if it was judged."""
    judged = ended.log.iterations[-1].result if ended.log.iterations else ""
    return f"{words.capitalized(judged)}." if judged else ended.reason


def _show(console: Console, change: Change, result: Repair | NoRepair, differences: Sequence[str]) -> None:
    console.print()
    if isinstance(result, NoRepair):
        say(console, "Not verified", f"{_reason(result)} ({result.outcome})", "bold yellow")
        if not result.log.iterations:
            say(console, "Next", result.next_step, "bold")
        return
    label, style = ("Verified", "bold green") if not differences else ("Differs", "bold yellow")
    say(console, label, f"{in_one_line(result.evidence)}: {change.title}", style)
    for difference in differences:
        say(console, "Receipt", difference, "yellow")
    if change.receipt is not None and not differences:
        say(console, "Receipt", f"The same commit, change and failing results as attempt {change.receipt.attempt} proved.")
    console.print(evidence_table(result))
    for doubt in result.doubts:
        say(console, "Doubt", f"{words.capitalized(doubt)}.")
    for note in result.evidence.approximated:
        say(console, "Unlike CI", note, "dim")
    console.print(plain(f"{result.evidence.environment}.", "dim"))


async def _text(root: Path, *arguments: str) -> str:
    told = await git(root, *arguments)
    if told is None:
        raise NotVerifiable(f"git cannot read the repair: `git {shlex.join(arguments)}` failed")
    return told.decode("utf-8", "surrogateescape").strip("\n")
