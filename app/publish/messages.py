"""Every text that people read on GitHub. Pure functions of values; all outside text passes a `Quoter`.

Knows nothing of how or when a text is published.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from agent import words
from agent.contract.outcome import Evidence, NoRepair, Outcome, ReflectionLog, Repair
from agent.question import Question
from app.endings import ENDINGS
from app.publish import proof
from app.publish.markdown import Quoter, link, shortened
from app.publish.proof import headline
from app.publish.reflection_log import log_markdown, spent, tried_markdown

BODY_LIMIT = 65_536
"""GitHub's limit is in characters; we count bytes, which is never less strict."""

_SUBJECT = 72  # characters of a pull request's title and of a commit's first line
_ASKED_DIFF = 12_000  # characters of the change that a person is asked about; the command line shows the whole
_NOTES = 10  # of what is not as in CI
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
    """At most 72 characters, as a list of pull requests shows them."""
    quote = quoter(publication)
    what = quote.line(headline(repair), 500) or "make the failing checks pass"
    return shortened(f"Heal CI: {what}", _SUBJECT)


def commit_message(publication: Publication, repair: Repair) -> str:
    quote = quoter(publication)
    subject = shortened(quote.line(headline(repair), 500), _SUBJECT) or "Make the failing checks pass"
    cause = quote.line(repair.diagnosis.cause, 600)
    return f"{subject}\n\n{cause}\n\n{trailer(publication.attempt_id)}\n"


def pull_body(publication: Publication, repair: Repair) -> str:
    """At most `BODY_LIMIT` bytes: the log is cut first, then the lists of ids; the evidence's numbers never."""
    quote = quoter(publication)
    for ids in _IDS:
        body = _told(publication, repair, quote, ids)
        if _size(body) <= BODY_LIMIT * 3 // 4:
            break
    return body + _log(publication, _beside(repair), quote, BODY_LIMIT - _size(body))


def _told(publication: Publication, repair: Repair, quote: Quoter, ids: int) -> str:
    parts = [
        pull_marker(publication.attempt_id),
        _summary(publication, repair, quote),
        "### The cause",
        proof.cause(repair.diagnosis, quote),
        "### The change",
        proof.changed(repair, quote),
        *_found_by(repair, quote),
        "### The evidence",
        proof.table(repair.evidence, quote),
        (
            "Each run was made in a fresh process in a sandbox. The last one takes the change back and must be red again, so "
            "that it is the change that heals."
        ),
        *_environment(repair.evidence, quote),
        "What was red, and is green with the change:",
        *proof.red(repair.evidence, quote, ids),
        "### Before you merge",
        (
            "Read the diff: passing tests show that the tested behaviour is right, not that it is what you meant. Merge it, "
            "push on top of it, or close it: a closed one is not opened again."
        ),
        f"Cost: {spent(repair.usage)}.",
    ]
    return "\n\n".join(part for part in parts if part)


def _summary(publication: Publication, repair: Repair, quote: Quoter) -> str:
    """Three lines for somebody with two hundred notifications: what failed, what was changed, how sure."""
    run = f" ({link('see the run', publication.run_url)})" if publication.run_url else ""
    where = f"on {quote.span(publication.head_branch)} at {quote.span(publication.head_sha[:10])}"
    what = quote.prose(headline(repair), 300).rstrip(".") or "see the diff"
    return "\n".join(
        [
            f"- **Failed:** {quote.span(publication.run_title or 'CI')} {where}: {proof.failed(repair.evidence)}{run}.",
            f"- **Changed:** {what} ({proof.files(repair, quote)}).",
            f"- **How sure:** {proof.sureness(repair)}.",
            *proof.doubts(repair, quote),
        ]
    )


def _environment(evidence: Evidence, quote: Quoter) -> list[str]:
    told = [f"Environment: {quote.prose(evidence.environment, 500)}."] if evidence.environment.strip() else []
    if evidence.approximated:
        told += ["Not as in CI:", "\n".join(f"- {quote.prose(note, 300)}" for note in evidence.approximated[:_NOTES])]
    return told


def _found_by(repair: Repair, quote: Quoter) -> list[str]:
    verified = next((i for i in reversed(repair.log.iterations) if i.result == "verified"), None)
    if verified is None:
        return []
    rounds = len(repair.log.iterations)
    which = (
        "the first change that was put to the full check"
        if rounds == 1
        else f"after {words.counted(rounds - 1, 'change')} that failed"
    )
    return [f"Found by {quote.prose(words.rung(verified.rung), 120)}, {which}."]


def _beside(repair: Repair) -> ReflectionLog:
    """The log without what stands above it already: the diagnosis, and the diff of the repair itself."""
    log = repair.log
    told = None if log.diagnosis == repair.diagnosis else log.diagnosis
    rounds = tuple(replace(i, diff="") if i.result == "verified" else i for i in log.iterations)
    return replace(log, diagnosis=told, iterations=rounds)


def _log(publication: Publication, log: ReflectionLog, quote: Quoter, room: int) -> str:
    """The log in a details block of at most `room` bytes, after a link to the attempt's page; nothing where nothing is."""
    page = f"\n\n{link('The attempt on the dashboard', publication.details_url)}" if publication.details_url else ""
    frame = f"{page}\n\n<details>\n<summary>Reflection log: what was tried and learned</summary>\n\n{{}}\n\n</details>\n"
    text = log_markdown(log, quote, room - _size(frame))
    if text is None:
        return f"{page}\n"
    return frame.format(text or "The log is too long to be shown here.")


def healed_summary(publication: Publication, repair: Repair, pull_url: str) -> str:
    quote = quoter(publication)
    ending = ENDINGS[Outcome.HEALED]
    return "\n\n".join(
        [
            f"{ending.sentence} {link('The pull request', pull_url)} carries the proof.",
            _summary(publication, repair, quote),
            f"**Cause:** {quote.prose(repair.diagnosis.cause, 600)}",
            proof.table(repair.evidence, quote),
            f"**Next:** {ending.next_step}",
        ]
    )


def no_repair_summary(publication: Publication, result: NoRepair) -> str:
    """The outcome's sentence, why in this case, what to do; then the diagnosis, what was tried, and the log."""
    quote = quoter(publication)
    ending, log = ENDINGS[result.outcome], result.log
    parts = [
        ending.sentence,
        f"**Why:** {quote.prose(result.reason, 1000)}",
        f"**Next:** {quote.prose(result.next_step, 600) if result.next_step.strip() else ending.next_step}",
    ]
    if log.diagnosis is not None:
        parts += ["### Best diagnosis so far", proof.cause(log.diagnosis, quote)]
    if tried := tried_markdown(log, quote):
        parts += ["### What was tried, and why it is not the repair", tried]
    if log.notes:
        parts += ["### Worth knowing", "\n".join(f"- {quote.prose(note, 600)}" for note in log.notes[:20])]
    if log.iterations or log.rungs:
        parts.append(f"Cost: {spent(result.usage)}.")
    body = "\n\n".join(parts)
    rest = replace(log, diagnosis=None, notes=())
    return body + _log(publication, rest, quote, BODY_LIMIT - 1 - _size(body))


def no_repair_comment(publication: Publication, result: NoRepair) -> str:
    """The answer to a person who asked by a command."""
    quote = quoter(publication)
    ending = ENDINGS[result.outcome]
    parts = [
        comment_marker(publication.attempt_id),
        f"{ending.sentence} {quote.prose(result.reason, 600)}",
    ]
    if result.log.diagnosis is not None:
        parts.append(f"**Best diagnosis so far:** {quote.prose(result.log.diagnosis.cause, 600)}")
    page = f" {link('More on the dashboard', publication.details_url)}." if publication.details_url else ""
    parts.append(f"**Next:** {quote.prose(result.next_step, 400) if result.next_step.strip() else ending.next_step}{page}")
    return "\n\n".join(parts)


def healed_comment(publication: Publication, number: int, pull_url: str) -> str:
    text = f"A verified repair of {quoter(publication).span(publication.head_sha[:10])} is in {link(f'#{number}', pull_url)}."
    return f"{comment_marker(publication.attempt_id)}\n\n{text}"


def progress_summary(publication: Publication, step: str) -> str:
    page = f" {link('Watch it on the dashboard', publication.details_url)}." if publication.details_url else ""
    return f"{quoter(publication).prose(step, 200)}.{page}"


def question_summary(publication: Publication, asked: Question) -> str:
    """What a person is asked, and how they answer: with the operator's command, as the word of a passer-by is not enough."""
    quote = quoter(publication)
    known = publication.attempt_id[:12]
    if asked.about == "publish":
        why = "what should be done instead"
        after = "A rejection with a reason is learned from, and another change is looked for; one without ends the attempt."
    else:
        why, after = "why not", "A rejection ends the attempt."
    parts = [
        f"**Selfheal asks:** {quote.prose(asked.text, 600)}",
        quote.fence(asked.diff, _ASKED_DIFF, "diff") if asked.diff else "",
        "**Next:** whoever runs this Selfheal answers there, now or in some days:",
        f'```\nselfheal attempts approve {known}\nselfheal attempts reject {known} --why "{why}"\n```',
        after,
    ]
    return "\n\n".join(part for part in parts if part)


def _size(text: str) -> int:
    return len(text.encode())
