"""Every text that people read on GitHub. Pure functions of values; all outside text passes a `Quoter`.

Knows nothing of how or when a text is published.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from agent.task import CheckEvidence, Evidence, FileChange, NoRepair, Outcome, ReflectionLog, Repair
from app.endings import ENDINGS
from app.markdown import Quoter, link
from app.retelling import log_markdown, spent

BODY_LIMIT = 65_536
"""GitHub's limit is in characters; we count bytes, which is never less strict."""

_ROWS = 30  # checks in the evidence table
_IDS = (20, 5, 1)  # node ids of a check that are listed, tried in turn until the text fits


@dataclass(frozen=True, slots=True)
class Publication:
    """What texts and writes need to know of an attempt."""

    attempt_id: str
    number: int  # 1 for the first attempt of this head, then 2, …
    repository: str  # full name
    head_sha: str
    head_branch: str
    run_title: str  # what failed, for people: "CI / tests"
    run_url: str = ""  # empty where there is no run
    details_url: str | None = None  # the attempt's page on the dashboard
    pull_number: int | None = None  # the pull request whose head this is
    by_command: bool = False  # a person asked in that pull request
    secrets: tuple[str, ...] = field(default=(), repr=False)  # exact secrets of this installation, to be redacted


def pull_marker(attempt_id: str) -> str:
    """The hidden words by which a pull request's text is known to be this attempt's."""
    return f"<!-- selfheal:pull:{attempt_id} -->"


def comment_marker(attempt_id: str) -> str:
    return f"<!-- selfheal:comment:{attempt_id} -->"


def trailer(attempt_id: str) -> str:
    """The last line of our commits' messages."""
    return f"Selfheal-Attempt: {attempt_id}"


def is_ours(commit_message: str) -> bool:
    return commit_message.rstrip().rpartition("\n")[2].startswith("Selfheal-Attempt: ")


def quoter(publication: Publication) -> Quoter:
    return Quoter(publication.secrets)


def title(publication: Publication, repair: Repair) -> str:
    return f"Heal: {quoter(publication).line(repair.title, 120) or 'make the failing checks pass'}"


def commit_message(publication: Publication, repair: Repair) -> str:
    quote = quoter(publication)
    cause = quote.line(repair.diagnosis.cause, 600)
    subject = quote.line(repair.title, 70) or "Make the failing checks pass"
    return f"{subject}\n\n{cause}\n\n{trailer(publication.attempt_id)}\n"


def pull_body(publication: Publication, repair: Repair) -> str:
    """At most `BODY_LIMIT` bytes: the log is cut first, then the lists of ids; the evidence's numbers never."""
    quote = quoter(publication)
    for ids in _IDS:
        body = _proof(publication, repair, quote, ids)
        if _size(body) <= BODY_LIMIT * 3 // 4:
            break
    return body + _log(publication, repair.log, quote, BODY_LIMIT - _size(body))


def _proof(publication: Publication, repair: Repair, quote: Quoter, ids: int) -> str:
    diagnosis = repair.diagnosis
    what = link("the run", publication.run_url) if publication.run_url else "the run"
    checks = repair.evidence.checks
    parts = [
        pull_marker(publication.attempt_id),
        (
            f"{quote.span(publication.run_title or 'CI')} failed on {quote.span(publication.head_branch)} at "
            f"{quote.span(publication.head_sha[:10])} ({what}). With this change it passes, and what passed before still does."
        ),
        "## What failed",
        *(_failed(check, quote, ids) for check in checks[:_ROWS]),
        *_more(len(checks) - _ROWS, "check"),
        "## The cause",
        quote.prose(diagnosis.cause, 1500),
        (
            f"Category: {quote.prose(diagnosis.category, 60)}. Diagnosed by {quote.prose(diagnosis.by, 80)}, "
            f"{_percent(diagnosis.confidence)} sure."
        ),
        "## What was changed, and why",
        quote.prose(repair.title, 300),
        *_found_by(repair, quote),
        "\n".join(f"- {_change(change, quote)}" for change in repair.edits[:50]),
        *_more(len(repair.edits) - 50, "file"),
        "## Evidence",
        _table(repair.evidence, quote),
        (
            f"Environment: {quote.prose(repair.evidence.environment, 500)}. Each check ran in a sandbox; the run with the "
            "patch and the last run without it were fresh processes."
        ),
        "## How sure",
        _sureness(repair),
        f"Cost: {spent(repair.usage)}.",
        "## What to do next",
        (
            "1. Read the diff: passing tests show that the tested behaviour is right, not that the intent is.\n"
            "2. Merge it into the branch, or push your own commits on top. Closing it is fine too: it is not opened again."
        ),
    ]
    return "\n\n".join(part for part in parts if part)


def _failed(check: CheckEvidence, quote: Quoter, ids: int) -> str:
    listed = quote.fence("\n".join(" ".join(quote.clean(i, 240).split()) for i in check.target[:ids]), 8000)
    rest = len(check.target) - ids
    noun = "verdict was" if len(check.target) == 1 else "verdicts were"
    text = (
        f"{quote.span(check.check, 80)}: {len(check.target)} {noun} red. Command: {quote.span(check.command, 300)}\n\n{listed}"
    )
    return text + (f"\n\n… and {rest} more." if rest > 0 else "")


def _found_by(repair: Repair, quote: Quoter) -> list[str]:
    verified = [i for i in repair.log.iterations if i.result == "verified"]
    return [f"Found by {quote.prose(verified[-1].rung, 80)} in iteration {verified[-1].number}."] if verified else []


def _change(change: FileChange, quote: Quoter) -> str:
    name = quote.span(change.path, 240)
    if change.before is None:
        return f"{name}: new, {_lines(change.after)} lines"
    if change.after is None:
        return f"{name}: removed"
    added, removed = _counts(change.before, change.after)
    return f"{name}: +{added} −{removed}"


def _counts(before: str, after: str) -> tuple[int, int]:
    """Lines added and removed, by counting equal lines: quick on any file; a line that only moved counts as neither."""
    old, new = Counter(before.splitlines()), Counter(after.splitlines())
    return (new - old).total(), (old - new).total()


def _table(evidence: Evidence, quote: Quoter) -> str:
    rows = [
        "| check | target | before (red / green) | with the patch (red / green) | without it again: target red |",
        "|---|--:|--:|--:|--:|",
    ]
    for c in evidence.checks[:_ROWS]:
        rows.append(
            f"| {quote.cell(c.check)} | {len(c.target)} "
            f"| {c.base_red} / {c.base_green} ({c.base_seconds:.1f} s) "
            f"| {c.with_red} / {c.with_green} ({c.with_seconds:.1f} s) "
            f"| {c.without_red} of {len(c.target)} ({c.without_seconds:.1f} s) |"
        )
    return "\n".join([*rows, *_more(len(evidence.checks) - _ROWS, "check")])


def _sureness(repair: Repair) -> str:
    confidence = repair.confidence
    words = (
        "very sure"
        if confidence >= 0.9
        else "fairly sure"
        if confidence >= 0.7
        else "unsure"
        if confidence >= 0.4
        else "a guess"
    )
    if repair.alternatives == 0:
        others = "No other change was found that passes the failing checks."
    elif repair.alternatives == 1:
        others = "One other change passes the failing checks too, so that the tests alone do not decide: look closely."
    else:
        others = (
            f"{repair.alternatives} other changes pass the failing checks too: the tests alone do not decide, look closely."
        )
    return f"Selfheal is **{words}** ({_percent(confidence)}) that this is the right repair. {others}"


def _log(publication: Publication, log: ReflectionLog, quote: Quoter, room: int) -> str:
    """The log in a details block of at most `room` bytes, after a link to the attempt's page."""
    page = f"\n\n{link('The attempt on the dashboard', publication.details_url)}" if publication.details_url else ""
    frame = f"{page}\n\n<details>\n<summary>Reflection log</summary>\n\n{{}}\n\n</details>\n"
    text = log_markdown(log, quote, room - _size(frame)) or "The log is too long to be shown here."
    return frame.format(text)


def healed_summary(publication: Publication, repair: Repair, pull_url: str) -> str:
    quote = quoter(publication)
    ending = ENDINGS[Outcome.HEALED]
    return "\n\n".join(
        [
            f"{ending.sentence} {link('The pull request', pull_url)} carries the proof.",
            f"Cause: {quote.prose(repair.diagnosis.cause, 600)}",
            _table(repair.evidence, quote),
            f"**Next:** {ending.next_step}",
        ]
    )


def no_repair_summary(publication: Publication, result: NoRepair) -> str:
    """The outcome's sentence, the reason in this case, the next step, the cost and the log."""
    quote = quoter(publication)
    ending = ENDINGS[result.outcome]
    body = "\n\n".join(
        [
            ending.sentence,
            f"**Why:** {quote.prose(result.reason, 1000)}",
            f"**Next:** {quote.prose(result.next_step, 600) if result.next_step.strip() else ending.next_step}",
            f"Cost: {spent(result.usage)}.",
        ]
    )
    return body + _log(publication, result.log, quote, BODY_LIMIT - 1 - _size(body))


def no_repair_comment(publication: Publication, result: NoRepair) -> str:
    """The answer to a person who asked by a command."""
    quote = quoter(publication)
    ending = ENDINGS[result.outcome]
    page = f" {link('More on the dashboard', publication.details_url)}." if publication.details_url else ""
    return "\n\n".join(
        [
            comment_marker(publication.attempt_id),
            f"{ending.sentence} {quote.prose(result.reason, 600)}",
            f"**Next:** {quote.prose(result.next_step, 400) if result.next_step.strip() else ending.next_step}{page}",
        ]
    )


def healed_comment(publication: Publication, number: int, pull_url: str) -> str:
    text = f"A verified repair of {quoter(publication).span(publication.head_sha[:10])} is in {link(f'#{number}', pull_url)}."
    return f"{comment_marker(publication.attempt_id)}\n\n{text}"


def progress_summary(publication: Publication, step: str) -> str:
    page = f" {link('Watch it on the dashboard', publication.details_url)}." if publication.details_url else ""
    return f"Now: {quoter(publication).prose(step, 200)}.{page}"


def _more(count: int, noun: str) -> list[str]:
    return [f"… and {count} more {noun}{'s' if count > 1 else ''}."] if count > 0 else []


def _lines(text: str | None) -> int:
    return len((text or "").splitlines())


def _percent(value: float) -> str:
    return f"{max(0.0, min(1.0, value)):.0%}"


def _size(text: str) -> int:
    return len(text.encode())
