"""Every text that people read on GitHub: pull requests, commits, comments, check runs.

Pure functions of values; all untrusted text goes through a `Quoter`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from datetime import date

from agent.contract import words
from agent.contract.outcome import Evidence, Iteration, NoRepair, Outcome, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis
from agent.contract.question import Question
from agent.diagnosis.evidence import BY_VERDICTS
from agent.edits.changes import diff
from agent.gate.confidence import SURE
from agent.report.endings import ON_COMMAND_LINE, ON_REQUEST, THIS_CHANGE
from app.publish import culprit, proof, receipt
from app.publish.markdown import ZWSP, Quoter, link, shortened, uncommanded
from app.publish.outcomes import OUTCOME_TEXTS, ended, said
from app.publish.proof import headline, log_markdown, size, spent, tried_markdown
from app.publish.receipt import FailedJob, Receipt
from webhooks.triggers import BRANCH_PREFIX

BODY_LIMIT = 65_536
"""Of a pull request or comment, in bytes. GitHub counts characters there, so its limit is never stricter."""

CHECK_LIMIT = 65_535
"""Of a check run's summary, in bytes, as GitHub counts there."""

CHECK = "Selfheal"  # the name of our check run
_TRAILER = "Selfheal-Attempt: "  # begins the last line of Selfheal's commit messages
_SUBJECT = 72  # characters of a pull request's title and of a commit's first line
_PLACE = 30  # of these for the place
_ASKED_DIFF = 12_000  # characters of a diff to approve; the command line shows all of it
_VISIBLE_AGAIN = r"perl -pe 's/\xe2\x80\x8b//g'"  # of U+200B
_PATCH = 30_000  # characters of a diff that people apply by hand
_REMEDIES = (  # words in a refusal by GitHub, and what has to be changed then
    ("cannot be opened here", "ask an admin of the repository to turn on pull requests and to let the App write them"),
    (
        "commit message",
        "set `commit_prefix` in `.github/selfheal.yml` to what the rule demands, or let the App bypass the ruleset",
    ),
    ("branch name", "allow branches named `{}…` in the ruleset, or ask the operator to set another `SELFHEAL_BRANCH_PREFIX`"),
    (
        "not accessible by integration|not found|`workflows` permission",
        (
            "ask the App's owner to grant it the permission Workflows (read and write), and an owner of this account to accept "
            "that in the installation: this branch has other workflow files than the default branch"
        ),
    ),
    (
        "reference update failed",
        (
            "let the App bypass the branch protection rule or ruleset that matches `{}…` (Settings → Branches, or → Rules), or "
            "ask the operator to set another `SELFHEAL_BRANCH_PREFIX`"
        ),
    ),
    ("rule|protected branch", "let the App bypass the rule for branches named `{}…` (Settings → Rules → Rulesets)"),
    ("", "ask an admin of the repository to change the setting behind GitHub's answer above"),
)
_COMMENTING = re.compile(r"[Cc]omment `/heal`(?: on a pull request(?: of the branch)?)?")
_LINES = 26  # of a diff at the top of a pull request, with its headers
_NOTES = 10  # differences from CI
_BROKEN = (4_000, 1_500)  # characters of the diff of what broke the tests: in the check run, in a comment
_FOLDING = 400  # bytes of what `folded` adds
_OUTDATED = "<!-- selfheal:outdated -->"
_CLOSED = "**Closed:** "
_TIMELINE = "Timeline of this attempt"
_IDS = (20, 5, 1)  # failing ids listed per check, tried in turn until the text fits


@dataclass(frozen=True, slots=True)
class Publication:
    """The facts of an attempt that its texts and writes need."""

    attempt_id: str
    number: int  # of the attempt among those of this head, from 1
    head_sha: str
    head_branch: str
    run_title: str  # the failing run, such as "CI / tests"
    run_url: str = ""  # "" if there is no run
    pull_number: int | None = None  # the open pull request with this head
    pull_author: str = ""  # login of the person who opened it
    by_command: bool = False  # requested by a comment in that pull request
    tells_author: bool = False  # comments there without a request too
    page_url: str = ""  # of the attempt, if people can reach the pages
    good_sha: str = ""  # of the last good commit, if it is known
    jobs: tuple[FailedJob, ...] = ()
    branch_prefix: str = BRANCH_PREFIX  # of the repair's branch
    commit_prefix: str = ""  # of the repair's commit and pull request, if the repository demands one
    answered: str = ""  # when a person last answered a question, which starts a new check run
    secrets: tuple[str, ...] = field(default=(), repr=False)  # this installation's secrets, to redact

    @property
    def comment_marker(self) -> str:
        """A hidden comment in our comment: one for each `/heal`, and one for all automatic attempts of a pull request."""
        return f"<!-- selfheal:comment:{self.attempt_id if self.by_command else 'author'} -->"

    @property
    def comment_head(self) -> str:
        """The first line of our comment: its marker, and whose text it shows, as later attempts edit it."""
        return f"{self.comment_marker}<!-- selfheal:attempt:{self.attempt_id} -->"


def pull_marker(attempt_id: str) -> str:
    """A hidden comment in a pull request's text that identifies the attempt."""
    return f"<!-- selfheal:pull:{attempt_id} -->"


def quota_marker(day: date) -> str:
    return f"<!-- selfheal:quota:{day} -->"


def quota_comment(day: date, refusal: str, pages_url: str) -> str:
    """A quota refuses a command, so there is no attempt whose page could be linked; the list of attempts shows the quotas."""
    shown = f" {link('What is used today', pages_url)}." if pages_url else ""
    return f"{quota_marker(day)}\n**This command starts nothing:** {refusal}{shown} Comment it again then."


REFUSAL = "<!-- selfheal:refusal -->"


def refusal_comment(why: str, page_url: str) -> str:
    return f"{REFUSAL}\n{why}{f' {link(_TIMELINE, page_url)}.' if page_url else ''}"


def attempt_in(commit_message: str) -> str | None:
    """The id of the attempt whose repair a commit is; None if Selfheal did not write the message."""
    last = commit_message.rstrip().rpartition("\n")[2]
    return last.removeprefix(_TRAILER).strip() if last.startswith(_TRAILER) else None


def is_ours(commit_message: str) -> bool:
    return attempt_in(commit_message) is not None


def quoter(publication: Publication) -> Quoter:
    return Quoter(publication.secrets)


def title(publication: Publication, repair: Repair) -> str:
    """At most 72 characters, the width of GitHub's list of pull requests. The place, a function or a file, survives a cut."""
    quote = quoter(publication)
    what, place = proof.told(repair)
    what, place = quote.line(what, 500) or "make the failing checks pass", quote.line(place, 100)
    whose = f"#{publication.pull_number}" if publication.pull_number is not None else "CI"
    start = f"{publication.commit_prefix} Heal {whose}: ".lstrip()
    end = f" in {shortened(place, _PLACE)}" if place else ""
    if (room := _SUBJECT - len(start) - len(end)) < _PLACE // 2:  # beside a long prefix
        room, end = _SUBJECT - len(start), ""
    return f"{start}{shortened(what, room)}{end}"


def commit_message(publication: Publication, repair: Repair) -> str:
    """No line starts with untrusted words: tools read types, trailers and commands there."""
    cause = quoter(publication).line(repair.diagnosis.cause, 600)
    return f"{title(publication, repair)}\n\nCause: {cause}\n\n{_TRAILER}{publication.attempt_id}\n"


def pull_body(publication: Publication, repair: Repair) -> str:
    """At most `BODY_LIMIT` bytes: the log is shortened first, then the lists of ids, never the evidence table."""
    quote = quoter(publication)
    for ids in _IDS:
        body = uncommanded(_body(publication, repair, quote, ids))
        if size(body) <= BODY_LIMIT * 3 // 4:
            break
    room = BODY_LIMIT - size(body)
    log = uncommanded(_log(_remaining_log(repair), quote, room))
    if (over := size(log) - room) > 0:  # what `uncommanded` adds
        log = uncommanded(_log(_remaining_log(repair), quote, room - over))
    return body + log


def _body(publication: Publication, repair: Repair, quote: Quoter, ids: int) -> str:
    """What is judged in ten seconds first: the facts and the diff. The evidence is folded."""
    evidence = [
        proof.kind(repair.diagnosis, quote),
        proof.changed(repair, quote),
        *_found_by(repair, quote),
        proof.table(repair.evidence, quote),
        (
            "Each run used a new process in a sandbox. Reverting the patch makes the tests fail again, so the patch is what "
            f"fixes them. {_how_to_repeat(repair)}"
        ),
        *_environment(repair.evidence, quote),
        "These failed before the patch and pass with it:",
        *proof.failing_ids(repair.evidence, quote, ids),
        f"Cost: {spent(repair.usage)}.",
    ]
    parts = [
        f"{pull_marker(publication.attempt_id)}\n{receipt.hidden(receipt_of(publication, repair, quote))}",
        _summary(publication, repair, quote),
        _short_diff(repair, quote),
        (
            "Review the diff. Passing tests show that the code does what the tests check, not that it does what you intended. "
            "If it is right, merge it; a draft must be marked as ready for review first. If not, push commits to it or "
            "close it. Selfheal does not reopen it."
        ),
        "<details>\n<summary>Evidence: cause, checks, environment, cost</summary>",
        *evidence,
        "</details>",
    ]
    return "\n\n".join(part for part in parts if part)


def _how_to_repeat(repair: Repair) -> str:
    if repair.evidence.merged_into:
        return "They were made on the merge that CI tested; the branch alone passes with and without the patch."
    return "To repeat this proof, install Selfheal and run `selfheal verify` with the address of this pull request."


def _short_diff(repair: Repair, quote: Quoter) -> str:
    """The diff, or its beginning."""
    lines = diff(repair.edits).splitlines()
    text = quote.fence("\n".join(lines[:_LINES]), 4000, "diff")
    rest = len(lines) - _LINES
    return f"{text}\n\n… and {words.counted(rest, 'more line')}: see the changed files." if rest > 0 else text


def _summary(publication: Publication, repair: Repair, quote: Quoter) -> str:
    """Lines at the top: what failed, its cause, what was changed, the proof, and the confidence."""
    run = f" ({link('see the run', publication.run_url)})" if publication.run_url else ""
    title = quote.span(publication.run_title or "CI")
    where = f"on {_where(publication, repair, quote)}"
    what = quote.prose(headline(repair), 300).rstrip(".") or "see the diff"
    alone = " The branch alone passes." if repair.evidence.merged_into else ""
    return "\n".join(
        [
            f"- **Failed:** {title} {where}{_broken(publication)}: {proof.failed(repair.evidence)}{run}.{alone}",
            f"- {proof.why(repair, quote)}",
            f"- **Changed:** {what} ({proof.files(repair, quote)}).",
            f"- **Proof:** {proof.in_one_line(repair.evidence)}.",
            f"- **Confidence:** {proof.sureness(repair)}.{proof.rival(repair, quote)}",
            *(f"- {doubt}" for doubt in proof.doubts(repair, quote)),
            *_page(publication, "- "),
        ]
    )


def _where(publication: Publication, repair: Repair, quote: Quoter) -> str:
    """The commit on which the checks failed, or its merge."""
    branch, commit, base = publication.head_branch, publication.head_sha[:10], repair.evidence.merged_into
    if base:
        return f"the merge of {quote.span(branch)} at {quote.span(commit)} into {quote.span(base)}"
    return f"{quote.span(branch)} at {quote.span(commit)}"


def _broken(publication: Publication) -> str:
    """The pull request that broke; GitHub links it to ours."""
    return f" (#{publication.pull_number})" if publication.pull_number is not None else ""


def _page(publication: Publication, bullet: str = "") -> list[str]:
    """A link to the attempt's page."""
    return [f"{bullet}{link(_TIMELINE, publication.page_url)}"] if publication.page_url else []


def _environment(evidence: Evidence, quote: Quoter) -> list[str]:
    parts = [f"Environment: {quote.prose(evidence.environment, 500)}."] if evidence.environment.strip() else []
    if evidence.approximated:
        notes = "\n".join(f"- {quote.prose(note, 300)}" for note in evidence.approximated[:_NOTES])
        parts += ["Differences from CI:", notes]
    return parts


def _found_by(repair: Repair, quote: Quoter) -> list[str]:
    verified = next((i for i in reversed(repair.log.iterations) if i.result == "verified"), None)
    if verified is None:
        return []
    failed = len(repair.log.iterations) - 1
    which = f"verified after {words.counted(failed, 'failed candidate')}" if failed else "its first candidate passed all checks"
    return [f"Found by {quote.prose(words.rung(verified.rung), 120)}; {which}."]


def _remaining_log(repair: Repair) -> ReflectionLog:
    """The log without parts that the body already shows: the diagnosis, and the diff of the repair."""
    log = repair.log
    diagnosis = None if log.diagnosis == repair.diagnosis else log.diagnosis
    iterations = tuple(replace(i, diff="") if i.result == "verified" else i for i in log.iterations)
    return replace(log, diagnosis=diagnosis, iterations=iterations)


def _log(log: ReflectionLog, quote: Quoter, room: int) -> str:
    """The log in a details block of at most `room` bytes."""
    frame = "\n\n<details>\n<summary>Reflection log: changes tried, and lessons</summary>\n\n{}\n\n</details>\n"
    text = log_markdown(log, quote, room - size(frame))
    if text is None:
        return "\n"
    return frame.format(text or "The log is too long to show here.")


def healed_title(repair: Repair, number: int | None) -> str:
    """The title of the check run on the commit that broke. `number`: of our pull request, if GitHub accepted one."""
    if number is None:
        return f"Repair found, but GitHub refuses the pull request: {proof.turned(repair.evidence)}"
    unsure = f" (unsure, {words.percent(repair.confidence)})" if repair.confidence < SURE else ""
    return f"Repair in #{number}{unsure}: {proof.turned(repair.evidence)}"


def healed_summary(publication: Publication, repair: Repair, pull_url: str) -> str:
    quote = quoter(publication)
    ending = OUTCOME_TEXTS[Outcome.HEALED]
    return "\n\n".join(
        [
            f"{proof.found(repair)} See {link('the pull request', pull_url)} for the evidence.",
            _summary(publication, repair, quote),
            proof.table(repair.evidence, quote),
            f"**Next:** {ending.next_step}",
        ]
    )


def receipt_of(publication: Publication, repair: Repair, quote: Quoter) -> Receipt:
    return receipt.of(
        repair,
        quote,
        attempt=publication.attempt_id,
        base=publication.head_sha,
        good=publication.good_sha,
        jobs=publication.jobs,
    )


def receipt_summary(publication: Publication, repair: Repair, pull_url: str) -> str:
    """The check run on the head of our pull request: the proof for people, the command that repeats it, the receipt."""
    quote = quoter(publication)
    if repair.evidence.merged_into:
        where = f"{_where(publication, repair, quote)}, pass there with this change, and fail again without it."
        claim = f"The checks failed on {where} The branch alone passes with and without it."
        repeated = ""
    else:
        failed = quote.span(publication.head_sha[:10])
        claim = f"The checks failed at {failed}, pass with this commit, and fail again without it."
        repeated = f"**Repeat this proof** with Selfheal's command line:\n\n```\nselfheal verify {pull_url}\n```"
    parts = [
        claim,
        proof.table(repair.evidence, quote),
        *([repeated] if repeated else []),
        *_page(publication),
        "<details>\n<summary>Receipt, for programs</summary>",
        quote.fence(receipt.readable(receipt_of(publication, repair, quote)), _PATCH),
        "</details>",
    ]
    return "\n\n".join(parts)


def by_hand(publication: Publication, refusal: str, shown: str = "") -> str:
    """The next step if GitHub refuses the pull request of a verified repair: what to change in rules or settings.

    `shown` is the diff as the text quotes it.
    """
    remedy = next(remedy for said, remedy in _REMEDIES if re.search(said, refusal, re.IGNORECASE))
    apply = "and apply it with `git apply`"
    if ZWSP in shown:
        apply = f"remove its invisible characters, which keep bots from obeying it (`{_VISIBLE_AGAIN}`), {apply}"
    return f"Review the diff, {apply}. To get pull requests, {remedy.format(publication.branch_prefix)}."


def patch_summary(publication: Publication, repair: Repair, refusal: str) -> str:
    """A verified repair whose branch or pull request GitHub refuses, with its whole diff if that fits."""
    quote = quoter(publication)

    def text(shown: str) -> str:
        parts = [
            f"{proof.found(repair)} GitHub refuses the pull request: {quote.prose(refusal, 600)}",
            _summary(publication, repair, quote),
            shown,
            proof.table(repair.evidence, quote),
            f"**Next:** {by_hand(publication, refusal, uncommanded(shown))}",
        ]
        return "\n\n".join(parts)

    room = CHECK_LIMIT - _FOLDING - size(text(ZWSP))  # its next step is the longer one
    return text(quote.fence(diff(repair.edits), _PATCH, "diff", room))


def patch_comment(publication: Publication, repair: Repair, refusal: str) -> str:
    """The comment on the pull request that broke, if GitHub refuses ours."""
    quote = quoter(publication)
    parts = [
        publication.comment_head,
        f"{proof.found(repair)} GitHub refuses the pull request: {quote.prose(refusal, 600)}",
        f"**Failed:** {proof.failed(repair.evidence)} on {_where(publication, repair, quote)}.",
        proof.why(repair, quote),
        shown := quote.fence(diff(repair.edits), _PATCH, "diff"),
        *_believed(repair, quote),
        f"**Next:** {by_hand(publication, refusal, uncommanded(shown))}",
        *_page(publication),
    ]
    return uncommanded("\n\n".join(parts))


def _next_step(publication: Publication, quote: Quoter, result: NoRepair, limit: int) -> str:
    """What the reader can do, who has no command line: without a pull request, nobody can comment, but people can re-run our
    check.
    """
    step = (result.next_step.strip() or OUTCOME_TEXTS[result.outcome].next_step).partition(f" {ON_COMMAND_LINE}")[0]
    if publication.pull_number is None:
        step = step.removesuffix(f" {ON_REQUEST}")
        step = _COMMENTING.sub(lambda found: f"{'Re' if found[0][0] == 'C' else 're'}-run the check `{CHECK}`", step)
    elif step.startswith(f"{THIS_CHANGE} "):
        step = f"This pull request{step.removeprefix(THIS_CHANGE)}"
    # People copy this command. Only Selfheal obeys it, at the start of a comment's line, and not in comments of Apps.
    return quote.prose(step, limit).replace(f"`/{ZWSP}heal", "`/heal")


def no_repair_title(publication: Publication, result: NoRepair) -> str:
    """The title of the check run: how the attempt ended, and what fails or why, with the place and the error if known."""
    diagnosis, is_out = result.log.diagnosis, result.outcome is Outcome.OUT_OF_BUDGET
    what = diagnosis.cause if diagnosis is not None and (is_out or _is_about_efforts(result)) else result.reason
    return f"{ended(result)}. {quoter(publication).line(what, 200)}"


def no_repair_summary(publication: Publication, result: NoRepair) -> str:
    """What happened, what fails and the next step; then what broke the tests or a possible repair; the rest is folded.

    If a repair would have to change a test, the diagnosis is what the test demands: people decide between it and the change.
    """
    quote, log = quoter(publication), result.log
    parts = _ended(result, quote, 1000)
    disagree = result.outcome is Outcome.NEEDS_TEST_CHANGE and result.culprit is not None
    if log.diagnosis is not None and not disagree:
        parts.append(_cause(log.diagnosis, quote))
    parts += [f"**Next:** {_next_step(publication, quote, result, 800)}", *_page(publication)]
    if log.diagnosis is not None and disagree:
        parts += ["### How the test fails", proof.cause(log.diagnosis, quote)]
    if result.culprit is not None:
        heading = "### What the change did" if disagree else "### What broke it"
        parts += [heading, *culprit.markdown(result.culprit, quote, _BROKEN[0], result.reason)]
    if result.suspects:
        parts += [f"### {_possible(result)}", *_suspect(result.suspects[0], quote, _BROKEN[0])]
    if result.partial is not None:
        parts += ["### A part of a repair, not applied", *_partial(result.partial, quote, _BROKEN[0])]
    body = "\n\n".join([*parts, *_efforts(result, quote)])
    rest = replace(log, diagnosis=None, notes=())
    return body + _log(rest, quote, CHECK_LIMIT - _FOLDING - size(body))


def _ended(result: NoRepair, quote: Quoter, limit: int) -> list[str]:
    """How the attempt ended, and why. Where the reason says all, the outcome's own sentence is left out."""
    if _is_about_efforts(result):
        return [said(result)]
    reason = quote.prose(result.reason, limit)
    if result.culprit is not None or result.suspects:
        return [said(result), f"**Why:** {reason}"]
    return [f"**Not repaired ({words.uncapitalized(ended(result))}):** {reason}"]


def _possible(result: NoRepair) -> str:
    return "The repair, not applied" if result.outcome is Outcome.REFUSED else "Possible repair, not applied"


def _is_about_efforts(result: NoRepair) -> bool:
    """Whether the reason tells only what Selfheal tried, which helps nobody to repair the code."""
    return result.outcome is Outcome.GAVE_UP and result.culprit is None and not result.suspects


def _cause(diagnosis: Diagnosis, quote: Quoter) -> str:
    """What fails, as the tests show it, or a model's diagnosis of it."""
    if diagnosis.by == BY_VERDICTS:
        return f"**Fails:** {quote.prose(diagnosis.cause, 1000)}"
    return f"**Best diagnosis so far:** {quote.prose(diagnosis.cause, 1000)} {proof.kind(diagnosis, quote)}"


def _efforts(result: NoRepair, quote: Quoter) -> list[str]:
    """What was tried, with notes and cost, folded."""
    log = result.log
    parts = [quote.paragraph(result.reason, 1000)] if _is_about_efforts(result) else []
    parts += [tried_markdown(log, quote)]
    parts += ["\n".join(f"- {quote.prose(note, 600)}" for note in log.notes[:20])]
    if log.iterations or log.rungs:
        parts.append(f"Cost: {spent(result.usage)}.")
    shown = [part for part in parts if part]
    return ["<details>\n<summary>What was tried, notes, and cost</summary>", *shown, "</details>"] if shown else []


def helps_the_author(result: NoRepair) -> bool:
    """Whether the author of the pull request that broke is told without having asked."""
    decides = result.outcome in (Outcome.FLAKY, Outcome.NEEDS_TEST_CHANGE)
    return decides or result.culprit is not None or bool(result.suspects)


def no_repair_comment(publication: Publication, result: NoRepair) -> str:
    """The comment on the pull request that broke."""
    quote = quoter(publication)
    parts = [" ".join(_ended(result, quote, 600)).replace(" **Why:** ", " ")]
    if (diagnosis := result.log.diagnosis) is not None and (result.culprit is None or diagnosis.by != BY_VERDICTS):
        parts.insert(0 if _is_about_efforts(result) else 1, _cause(diagnosis, quote))  # else, the reason says it
    if result.culprit is not None:
        _, *shown = culprit.markdown(result.culprit, quote, _BROKEN[1], result.reason)
        parts += shown
    if result.suspects:
        parts += [f"**{_possible(result)}:**", *_suspect(result.suspects[0], quote, _BROKEN[1])]
    if result.partial is not None:
        parts += ["**A part of a repair, not applied:**", *_partial(result.partial, quote, _BROKEN[1])]
    parts += [f"**Next:** {_next_step(publication, quote, result, 600)}", *_page(publication)]
    parts += _efforts(result, quote) if _is_about_efforts(result) or result.outcome is Outcome.OUT_OF_BUDGET else []
    return uncommanded("\n\n".join([publication.comment_head, *parts]))


def _partial(change: Iteration, quote: Quoter, limit: int) -> list[str]:
    """A change that did not turn all failing tests: what is left, and its diff."""
    left = quote.paragraph(f"{change.title.rstrip('.')}. {words.capitalized(change.result)}.", 400)
    return [f"{left} Not all other tests were run with it.", quote.fence(change.diff, limit, "diff")]


def _suspect(suspect: Repair, quote: Quoter, limit: int) -> list[str]:
    """The diff of a change that is too unsure for a pull request, the doubts, and other changes that pass."""
    parts = [quote.fence(diff(suspect.edits), limit, "diff"), *proof.doubts(suspect, quote)]
    if suspect.choices:
        titles = "\n".join(f"- {quote.prose(title, 200)}" for title in suspect.choices)
        parts.append(f"Other changes that pass the same tests:\n\n{titles}")
    return parts


def healed_comment(publication: Publication, repair: Repair, number: int, pull_url: str) -> str:
    """The comment on the pull request that broke."""
    quote = quoter(publication)
    where, alone = quote.span(publication.head_sha[:10]), ""
    if repair.evidence.merged_into:
        where, alone = _where(publication, repair, quote), " The branch alone passes."
    offer = "a verified repair" if repair.confidence >= SURE else "a possible repair"
    parts = [
        publication.comment_head,
        f"{link(f'#{number}', pull_url)} contains {offer} of {where} ({proof.failed(repair.evidence)}).{alone}",
        proof.why(repair, quote),
        f"**Changed:** {quote.prose(headline(repair), 300).rstrip('.') or 'see the diff'} ({proof.files(repair, quote)}).",
        *_believed(repair, quote),
        f"**Next:** Review {link(f'#{number}', pull_url)}, which merges into this branch. Selfheal never merges by itself.",
        *_page(publication),
    ]
    return uncommanded("\n\n".join(parts))


def _believed(repair: Repair, quote: Quoter) -> list[str]:
    """Why the repair is believed, and why not."""
    return [
        f"**Proof:** {proof.in_one_line(repair.evidence)}.",
        f"**Confidence:** {proof.sureness(repair)}.{proof.rival(repair, quote)}",
        *proof.doubts(repair, quote),
    ]


def needless(publication: Publication, green_sha: str) -> str:
    """Why our pull request is closed, as a sentence."""
    quote = quoter(publication)
    return f"CI of {quote.span(publication.head_branch)} is green at {quote.span(green_sha[:10])} without this repair."


def closed_body(attempt_id: str, body: str, why: str) -> str:
    """The text of our pull request, with the reason why it is closed, a sentence, at its top."""
    whole = uncommanded(f"{_CLOSED}{why}\n\n{body}")
    return whole if size(whole) <= BODY_LIMIT else uncommanded(f"{pull_marker(attempt_id)}\n\n{_CLOSED}{why}")


def was_closed(body: str) -> bool:
    """Whether our pull request says that Selfheal has closed it: if it is open, a person wants it so."""
    return any(part.startswith(_CLOSED) for part in body.split("\n\n", 2)[:2])


def green_now(sha: str) -> str:
    return f"CI of `{sha[:10]}` is green now: nothing to do."


def moved_on(sha: str, head: str | None) -> str:
    """`head`: the newest commit of the branch; None if it was deleted."""
    if head is None:
        return f"The branch of `{sha[:10]}` was deleted: nothing to do."
    return f"The branch has moved on from `{sha[:10]}` to `{head[:10]}`: nothing to do."


def folded(why: str, former: str) -> str:
    """A report of ours that asks for something that is not needed any more: why not, then the former text, folded.

    A report that is folded already, or too long to be, stays as it is.
    """
    frame = f"{_OUTDATED}\n**{why}**\n\n<details>\n<summary>What Selfheal reported before</summary>\n\n{{}}\n\n</details>"
    is_short = size(frame.format(former)) <= CHECK_LIMIT
    return frame.format(former) if is_short and _OUTDATED not in former else former


def progress_summary(publication: Publication, step: str) -> str:
    return f"{quoter(publication).paragraph(step, 200)}."


def question_comment(publication: Publication, asked: Question) -> str:
    """The comment on the pull request that broke, while a person decides."""
    return uncommanded(f"{publication.comment_head}\n\n{question_summary(publication, asked)}")


def question_summary(publication: Publication, asked: Question) -> str:
    """The question, and who answers it: only the operator can; the attempt's page and `selfheal attempts show` tell how."""
    quote = quoter(publication)
    parts = [
        f"Selfheal waits for approval. {quote.prose(asked.text, 600)}",
        quote.fence(asked.diff, _ASKED_DIFF, "diff") if asked.diff else "",
        (
            "**Next:** Nothing to do here. Only the operator of this Selfheal installation can answer, for the attempt "
            f"`{publication.attempt_id[:12]}`."
        ),
        *_page(publication),
    ]
    return "\n\n".join(part for part in parts if part)
