"""What people read: complete, bounded, and harmless whatever the code under test and the model wrote."""

import inspect
import re
import shlex
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

from agent.ci.job import refusals
from agent.ci.plan import NO_CHECKS
from agent.contract.budget import RungCost, Usage
from agent.contract.last_good import Culprit, LastGood
from agent.contract.outcome import CheckEvidence, Evidence, Flakiness, Iteration, NoRepair, Outcome, ReflectionLog, Repair
from agent.contract.proposal import Diagnosis, FileChange, Span
from agent.contract.question import Question
from agent.contract.verdicts import CheckRun, Failure, VerdictId
from agent.contract.words import uncapitalized
from agent.diagnosis.evidence import BY_VERDICTS
from agent.report import endings
from agent.report.endings import ON_REQUEST, Ending, gave_up
from app.publish import messages
from app.publish.markdown import ZWSP
from app.publish.messages import BODY_LIMIT, CHECK_LIMIT, Publication
from app.publish.outcomes import OUTCOME_TEXTS, label
from app.store.leases.claims import QUOTA_NEXT
from tests.app.tokens import SECRETS

EVIL = "@octocat fixes #1 </details> ``` <script>alert(1)</script> | a | \u202e ghp_" + "a1B2" * 9


def publication(**changes: object) -> Publication:
    known = Publication(
        attempt_id="att_1",
        number=1,
        head_sha="0123456789abcdef0123456789abcdef01234567",
        head_branch="main",
        run_title="CI / tests",
        run_url="https://github.com/octo/calc/actions/runs/7",
    )
    return replace(known, **changes)


def evidence(checks: int = 1, ids: int = 2, word: str = "tests/test_calc.py::test_add") -> Evidence:
    one = CheckEvidence(
        check="tests",
        command="pytest -q",
        target=tuple(VerdictId(f"{word}[{i}]") for i in range(ids)),
        base_red=ids,
        base_green=28,
        base_seconds=1.25,
        with_red=0,
        with_green=28 + ids,
        with_seconds=1.5,
        without_red=ids,
        without_seconds=1.0,
    )
    return Evidence(
        tuple(replace(one, check=f"tests {n}") if n else one for n in range(checks)), "Python 3.11.7, sandbox local"
    )


COMMENT = ("<!-- selfheal:comment:author -->", "<!-- selfheal:attempt:att_1 -->")


def log(iterations: int = 1, text: str = "`<` becomes `<=`", diff: str = "-a < b\n+a <= b") -> ReflectionLog:
    return ReflectionLog(
        diagnosis=Diagnosis("The bound is excluded.", "boundary", 0.8, "model:x"),
        iterations=tuple(Iteration(n, "patterns", text, diff, "verified", text) for n in range(1, iterations + 1)),
        lessons=(text,),
        rungs=(RungCost("patterns", 2.5, 40, 1, Usage(), text),),
        notes=(text,),
    )


def repair(**changes: object) -> Repair:
    known = Repair(
        edits=(FileChange("calc/core.py", "a < b\nsame\n", "a <= b\nsame\n"),),
        title="`<` becomes `<=` in in_range",
        diagnosis=Diagnosis("The upper bound was excluded.", "boundary", 0.8, "verdicts and change"),
        evidence=evidence(),
        confidence=0.92,
        usage=Usage(1000, 200, 3, 0.0042),
        log=log(),
    )
    return replace(known, **changes)


def no_repair(outcome: Outcome = Outcome.GAVE_UP, **changes: object) -> NoRepair:
    return replace(NoRepair(outcome, "Forty changes were tried.", "Set a model.", Usage(), log()), **changes)


def culprit(text: str = "limit <= 3", path: str = "calc/core.py", **changes: object) -> Culprit:
    """Two of many changed lines; `text` is how one of them was."""
    now = "def f(limit):\n    # the limit counts\n    return limit < 3\n"
    known = Culprit(
        good="the last commit that passed CI (`3f2a91c0de`)",
        reversal=(FileChange(path, now, now.replace("limit < 3", text)),),
        places=(Span(path, 3, 3, 1.0, "changed"),),
        lines=2,
        of=140,
        breaks=("tests/test_new.py::test_strict",),
    )
    return replace(known, **changes)


def tags(markdown: str) -> list[str]:
    parser = MarkdownIt("commonmark", {"html": True}).enable("table")
    flat = [t for token in parser.parse(markdown) for t in (token, *(token.children or []))]
    found = [t.content for t in flat if t.type in ("html_block", "html_inline")]
    return [tag for part in found for tag in re.findall(r"<!--.*?-->|</?\w[^>]*>", part)]


def test_the_body_tells_the_whole_story() -> None:
    body = messages.pull_body(publication(), repair())
    for words in (
        "CI / tests", "[see the run](https://github.com/octo/calc/actions/runs/7)",
        "tests/test_calc.py::test_add[0]", "pytest -q",
        "2 failing tests", "The upper bound was excluded", "off-by-one", "no model used", "`calc/core.py`: +1 −1",
        "2 failed, 28 passed, 1.2 s", "0 failed, **30 passed**, 1.5 s",
        "2 of 2 failed again, 1.0 s", "Python 3.11.7, sandbox local", "very sure", "(92%)",
        "3 model calls, 1,200 tokens", "$0.0042",
        "no other passing change", "Review the diff.", "<summary>Reflection log",
        messages.pull_marker("att_1"),
    ):  # fmt: skip
        assert words in body, words


def test_an_unsure_change_is_shown_as_a_question_with_its_doubts_and_the_other_choices() -> None:
    doubts = ("the tests do not decide it: they also pass if `3` becomes `4`",)
    suspect = repair(confidence=0.55, doubts=doubts, choices=("`<` becomes `!=`", EVIL))
    unsure = no_repair(suspects=(suspect,), next_step="If the possible repair is right, apply it.")
    for text in (messages.no_repair_summary(publication(), unsure), messages.no_repair_comment(publication(), unsure)):
        assert "a possible repair: all checks pass with it, but do not show that it is right" in text
        assert "-a < b\n+a <= b" in text
        assert "they also pass if `3` becomes `4`" in text
        assert "Other changes that pass the same tests" in text
        assert "`<` becomes `!=`" in text
        assert "If the possible repair is right, apply it." in text
        assert not set(tags(text)) - {*COMMENT, "<details>", "<summary>", "</summary>", "</details>"}
        assert not any(secret in text for secret in SECRETS)


def test_a_change_that_repairs_a_part_is_shown_with_what_is_left() -> None:
    left = f"1 of 3 failing tests still fails: `test_b` (AssertionError: {EVIL})"
    part = no_repair(partial=Iteration(2, "model:m", "`<` becomes `<=`", "-a < b\n+a <= b", left))
    for text in (messages.no_repair_summary(publication(), part), messages.no_repair_comment(publication(), part)):
        assert "A part of a repair, not applied" in text
        assert "-a < b\n+a <= b" in text
        assert "1 of 3 failing tests still fails" in text
        assert "Not all other tests were run with it." in text
        assert not set(tags(text)) - {*COMMENT, "<details>", "<summary>", "</summary>", "</details>"}


def test_what_broke_the_tests_comes_before_an_unsure_change() -> None:
    text = messages.no_repair_summary(publication(), no_repair(culprit=culprit(), suspects=(repair(confidence=0.5),)))
    assert text.startswith("Selfheal found the change that broke the tests.")
    assert text.index("### What broke it") < text.index("### Possible repair, not applied")


def test_a_failure_that_only_the_merge_has_is_told_as_such_everywhere() -> None:
    merged = repair(evidence=replace(repair().evidence, merged_into="main"))
    where = publication(head_branch="topic")
    for text in (
        messages.pull_body(where, merged),
        messages.healed_summary(where, merged, "https://x/4"),
        messages.patch_comment(where, merged, "no"),
        messages.receipt_summary(where, merged, "https://x/4"),
    ):
        assert "on the merge of `topic` at `0123456789` into `main`" in text
        assert "selfheal verify" not in text, "at the head, nothing fails"


def test_a_verified_repair_that_cannot_be_published_is_not_called_unsure() -> None:
    result = no_repair(Outcome.REFUSED, suspects=(repair(),))
    assert messages.no_repair_title(publication(), result).startswith("Repair found, not published. ")
    for text in (messages.no_repair_summary(publication(), result), messages.no_repair_comment(publication(), result)):
        assert "a verified repair, but cannot open a pull request with it" in text
        assert "The repair, not applied" in text
        assert "-a < b\n+a <= b" in text


@pytest.mark.parametrize(
    ("seconds", "told"), [(5.0, "the search found no other change"), (0.0, "there was no search for another change")]
)
def test_of_a_models_repair_it_is_said_whether_others_were_searched_for(seconds: float, told: str) -> None:
    (iteration,) = log().iterations
    rungs = (RungCost("patterns", seconds, 0, 0, Usage()),)  # one that goes on tells no number yet
    known = replace(log(), iterations=(replace(iteration, rung="model:x"),), rungs=rungs)
    assert f"proposed by a model; {told}" in messages.pull_body(publication(), repair(log=known))


def test_changes_that_were_rejected_count_as_found() -> None:
    (iteration,) = log().iterations
    failed = replace(iteration, result="1 of 2 failing tests still fail: no order of objects: a, b")
    known = replace(log(), iterations=(failed, replace(iteration, result="review objects: it guesses"), iteration))
    assert "1 other change passed the tests, but was rejected" in messages.pull_body(publication(), repair(log=known))


def test_alternatives_and_an_unknown_price_are_said() -> None:
    body = messages.pull_body(publication(), repair(alternatives=3, confidence=0.5, usage=Usage(1, 1, 1, None)))
    assert "unsure (50%): 3 other changes pass too, so the tests alone do not decide" in body
    undecided = "the tests do not decide it: they also pass if `3` becomes `4`"
    for choice in ({"alternatives": 1}, {"choices": ("`<` becomes `!=`",)}, {"doubts": (undecided,)}):
        assert "fairly sure (96%)" in messages.pull_body(publication(), repair(confidence=0.96, **choice)), choice
    assert "very sure (96%)" in messages.pull_body(publication(), repair(confidence=0.96, doubts=("it changes 40 lines",)))
    assert "unknown price" in body
    partly = messages.pull_body(publication(), repair(usage=Usage(1, 1, 3, 0.5, unpriced=1)))
    assert "at least $0.50 (unknown price for 1 call)" in partly
    assert "$0, no model used" in messages.pull_body(publication(), repair(usage=Usage()))


def test_outside_text_cannot_act_anywhere_in_the_body() -> None:
    evil = repair(
        edits=(FileChange(EVIL, None, EVIL),),
        title=EVIL,
        diagnosis=Diagnosis(EVIL, EVIL, 0.5, EVIL),
        evidence=replace(
            evidence(), checks=(replace(evidence(word=EVIL).checks[0], check=EVIL, command=EVIL),), environment=EVIL
        ),
        log=replace(log(text=EVIL, diff=EVIL), diagnosis=Diagnosis(EVIL, EVIL, 0.5, EVIL)),
    )
    where = publication(head_branch=EVIL, run_title=EVIL)
    own = {messages.pull_marker("att_1"), *COMMENT, "<code>", "</code>"}
    own |= {"<!-- selfheal:receipt  -->", "<details>", "<summary>", "</summary>", "</details>"}
    texts = [
        messages.pull_body(where, evil),
        messages.healed_summary(where, evil, "https://github.com/octo/calc/pull/1"),
        messages.no_repair_summary(where, no_repair(reason=EVIL, next_step=EVIL, log=evil.log)),
        messages.no_repair_comment(where, no_repair(reason=EVIL, next_step=EVIL)),
        *(
            message(where, no_repair(Outcome.NEEDS_TEST_CHANGE, culprit=culprit(EVIL, EVIL, good=EVIL, breaks=(EVIL,))))
            for message in (messages.no_repair_summary, messages.no_repair_comment)
        ),
        messages.progress_summary(where, EVIL),
    ]
    for text in texts:
        assert {re.sub(r"(?<=selfheal:receipt )[\w+/=]+(?= -->)", "", tag) for tag in tags(text)} <= own
        assert tags(text).count("</details>") == tags(text).count("<details>")
    for text in [*texts, messages.title(where, evil), messages.commit_message(where, evil)]:
        assert "ghp_" not in text
        assert "\u202e" not in text
        assert not re.search(r"fixes #1", text)
    for text in (messages.title(where, evil), messages.commit_message(where, evil)):
        assert not re.search(r"@octocat|#1", text)


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_no_known_shape_of_token_is_published(secret: str) -> None:
    told = Diagnosis(secret, "logic", 0.5, secret)
    leaking = repair(title=secret, diagnosis=told, log=replace(log(text=secret, diff=f"+x = {secret}"), diagnosis=told))
    failing = no_repair(
        reason=secret, next_step=secret, log=replace(leaking.log, iterations=(Iteration(1, secret, secret, secret, secret),))
    )
    where = publication(run_title=secret)
    for text in (
        messages.title(where, leaking),
        messages.commit_message(where, leaking),
        messages.pull_body(where, leaking),
        messages.healed_summary(where, leaking, "https://github.com/octo/calc/pull/1"),
        messages.no_repair_summary(where, failing),
        messages.no_repair_comment(where, failing),
        messages.progress_summary(where, secret),
    ):
        assert secret not in text
        for line in secret.splitlines():
            assert line not in text


def test_the_first_lines_tell_what_failed_why_what_was_changed_and_how_sure_and_show_the_diff() -> None:
    body = messages.pull_body(publication(), repair())
    marker, receipt, blank, failed, cause, changed, proof, sure, *_ = body.splitlines()
    assert (marker, blank) == (messages.pull_marker("att_1"), "")
    assert receipt.startswith("<!-- selfheal:receipt ")
    assert failed.startswith("- **Failed:** `CI / tests` on `main` at `0123456789`: 2 failing tests ([see the run](https")
    assert changed == "- **Changed:** `<` becomes `<=` in in_range (`calc/core.py`)."
    assert cause == "- **Fails:** The upper bound was excluded."
    assert proof == "- **Proof:** 2 failing → 30 passing → 2 failing with the patch reverted."
    assert sure == "- **Confidence:** very sure (92%): no other passing change was found."
    varied = messages.pull_body(publication(), repair(signals={"passing": 1.0}))
    assert "very sure (92%): no other passing change was found, apart from small variations of this one." in varied
    imported = messages.pull_body(publication(), repair(title="imports `json` in calc/core.py"))
    assert "- **Changed:** imports `json` (`calc/core.py`)." in imported, "the place is told once"
    assert body.index("```diff") < body.index("<details>")


def test_doubts_are_told_and_below_sure_a_plain_sentence_is_said() -> None:
    doubted = repair(confidence=0.59, doubts=("it changes 40 lines", "the step `localize` was degraded to <b>less</b>"))
    for text in (
        messages.pull_body(publication(), doubted),
        messages.healed_summary(publication(), doubted, "https://x/4"),
        messages.healed_comment(publication(), doubted, 4, "https://x/4"),
        messages.patch_comment(publication(), doubted, "no"),
    ):
        assert "**Doubts:** it changes 40 lines; the step" in text
        assert "**Selfheal is not sure about this change.**" in text
        assert "<b>" not in text
    sure = messages.pull_body(publication(), repair(confidence=0.6))
    assert "not sure about this change" not in sure
    assert "Doubts" not in sure


def test_the_author_is_told_the_proof_and_the_strongest_rival() -> None:
    rivalled = repair(alternatives=2, choices=("`<` becomes `!=`", "`<` becomes `>`"))
    where = publication(page_url="https://heal.example/attempts/att_1")
    for text in (messages.healed_comment(where, rivalled, 4, "https://x/4"), messages.patch_comment(where, rivalled, "no")):
        assert "**Proof:** 2 failing → 30 passing → 2 failing with the patch reverted." in text
        assert "review carefully. The likeliest other change: `<` becomes `!=`." in text
        assert "`<` becomes `>`" not in text


def test_every_text_links_to_the_page_of_the_attempt_if_people_can_reach_it() -> None:
    asked = Question("publish", "May it be published?")
    for url, count in (("https://heal.example/attempts/att_1", 1), ("", 0)):
        where = publication(page_url=url)
        texts = (
            messages.pull_body(where, repair()),
            messages.healed_summary(where, repair(), "https://x/4"),
            messages.healed_comment(where, repair(), 4, "https://x/4"),
            messages.patch_summary(where, repair(), "no"),
            messages.patch_comment(where, repair(), "no"),
            messages.receipt_summary(where, repair(), "https://x/4"),
            messages.no_repair_summary(where, no_repair()),
            messages.no_repair_comment(where, no_repair()),
            messages.question_summary(where, asked),
            messages.question_comment(where, asked),
        )
        assert [text.count("[Timeline of this attempt](https://heal.example/attempts/att_1)") for text in texts] == [
            count
        ] * len(texts)


def test_a_next_step_says_only_what_its_reader_can_do() -> None:
    def told(step: str, **where: object) -> str:
        return messages.no_repair_summary(publication(**where), no_repair(next_step=step))

    assert "**Next:** Re-run the check `Selfheal` once the quota allows it." in told(QUOTA_NEXT)
    again = "If it is fixed, comment `/heal` on a pull request of the branch to try again."
    assert "**Next:** If it is fixed, re-run the check `Selfheal` to try again." in told(again)
    assert f"**Next:** {again}" in told(again, pull_number=1)
    touched = gave_up(1, (), (Span("users.py", 2, 2, 0.9, "changed since x, in the traceback of 1 failing test"),), "since x")
    rest = " touched `users.py:2`, where it fails. Start there."
    assert f"**Next:** This pull request{rest}" in told(touched.next_step, pull_number=1)
    assert f"**Next:** This change{rest}" in told(touched.next_step)


SAMPLES: dict[str, object] = {
    "absent": ["vendor/data/"],
    "base": (CheckRun("tests", "finished", {}, (), 1.0),),
    "bound": "the budget of 1 s is used up",
    "cause": "The test is wrong.",
    "changes": 1,
    "command": "pytest",
    "culprit": culprit(),
    "ending": NO_CHECKS,
    "failed_in_ci": False,
    "failure": Failure(VerdictId("test_a.py::test_a"), "assert 1 == 2"),
    "folder": "app",
    "found": Flakiness((VerdictId("test_a.py::test_a"),), 1, 3, "order"),
    "good": LastGood("the parent commit", ()),
    "ids": (VerdictId("test_a.py::test_a"),),
    "is_program": True,
    "lacks": "the network",
    "least": 0.5,
    "may_be_intended": True,
    "problem": "the disk is full",
    "ran": True,
    "result": "its tests pass, but the command still exits with 1: too little is covered",
    "rounds": 2,
    "run": CheckRun("tests", "finished", {}, (), 1.0),
    "rungs": (),
    "sentence": "The tests need a database.",
    "sign": "Connection refused",
    "source": "the job tests",
    "steps": 3,
    "suspect": repair(),
    "suspects": (),
    "title": "Run the tests",
    "tried": 2,
    "what": "memory",
    "why": "Too large.",
}


def every_ending() -> list[Ending]:
    """What each function that builds an ending returns; a new one may need a sample of its parameter."""
    endings_ = [NO_CHECKS]
    for _, build in [*inspect.getmembers(endings, inspect.isfunction), *inspect.getmembers(refusals, inspect.isfunction)]:
        if build.__annotations__.get("return") == "Ending":
            required = [each.name for each in inspect.signature(build).parameters.values() if each.default is each.empty]
            endings_.append(build(**{name: SAMPLES[name] for name in required}))
    return endings_


@pytest.mark.parametrize("pull_number", [None, 7])
def test_a_text_on_github_names_nothing_of_the_command_line(pull_number: int | None) -> None:
    endings_ = every_ending()
    assert [ending for ending in endings_ if re.search("`--|`selfheal fix", ending.next_step)], "a command line has its own"
    for ending in endings_:
        told = no_repair(ending.outcome, reason=ending.reason, next_step=ending.next_step)
        for build in (messages.no_repair_summary, messages.no_repair_comment):
            text = build(publication(pull_number=pull_number), told)
            assert not re.search(r"`--|selfheal fix|git submodule|command line", text), ending
            assert ("`/heal flaky`" in text) == (pull_number is not None and ON_REQUEST in ending.next_step)


def test_a_diff_to_apply_by_hand_can_be_applied(tmp_path: Path) -> None:
    """Bots obey commands in code, too. What keeps them from it can be removed as the text says."""
    before = "@cached\ndef f():\n    return 1\n!ready\n"
    decorated = repair(edits=(FileChange("a.py", before, before.replace("1", "2")),))
    for text in (
        messages.patch_summary(publication(), decorated, "no"),
        messages.patch_comment(publication(), decorated, "no"),
    ):
        assert "@cached" not in text
        patch = text.partition("```diff\n")[2].partition("\n```")[0] + "\n"
        (command,) = re.findall(r"`(perl .+?)`", text)
        (tmp_path / "a.py").write_text(before)
        again = subprocess.run(shlex.split(command), input=patch.encode(), capture_output=True, check=True).stdout
        subprocess.run(["git", "apply", "-"], cwd=tmp_path, input=again, check=True)
        assert (tmp_path / "a.py").read_text() == before.replace("1", "2")
    assert "perl" not in messages.patch_comment(publication(), repair(), "no")


def test_a_question_shows_the_change_and_who_answers_it() -> None:
    hostile = Question("publish", "May it be published? <img src=x> @octo", "```\n<!-- out -->\n" + "+ü🙂" * 100_000)
    asked = messages.question_summary(publication(), hostile)
    assert len(asked.encode()) < CHECK_LIMIT
    assert "Only the operator of this Selfheal installation can answer, for the attempt `att_1`." in asked
    assert "selfheal attempts" not in asked, "who reads it has no shell on the operator's machine"
    assert not tags(asked)


def test_without_a_run_none_is_spoken_of() -> None:
    body = messages.pull_body(publication(run_url=""), repair(evidence=evidence(ids=1)))
    assert "2 failing" not in body
    assert "at `0123456789`: 1 failing test.\n" in body
    assert "the run" not in body.partition("###")[0]


def test_what_is_empty_is_left_out() -> None:
    empty = ReflectionLog(None, (), (), ())
    body = messages.pull_body(publication(), repair(log=empty, evidence=replace(evidence(), environment=" ")))
    for words in ("Reflection log", "Found by", "Environment:", "Lessons"):
        assert words not in body
    summary = messages.no_repair_summary(publication(), no_repair(log=empty))
    for words in ("###", "Cost"):
        assert words not in summary


def test_the_log_repeats_neither_the_repairs_diff_nor_its_diagnosis() -> None:
    healed = repair()
    log_ = replace(
        log(2),
        diagnosis=healed.diagnosis,
        iterations=(
            Iteration(1, "patterns", "first", "-a\n+failed_try", "1 of 1 failing test still fails", "Look elsewhere."),
            Iteration(2, "patterns", healed.title, "-a < b\n+the_repair", "verified"),
        ),
        lessons=("first (calc/core.py): 1 of 1 failing test still fails. Look elsewhere.", "Of another kind."),
    )
    body = messages.pull_body(publication(), replace(healed, log=log_))
    assert "+failed_try" in body
    assert "+the_repair" not in body
    assert body.count("The upper bound was excluded") == 1
    assert body.count("Look elsewhere") == 1
    assert "Of another kind" in body
    assert "verified after 1 failed candidate" in body
    late = replace(healed, log=replace(log_, iterations=(replace(log_.iterations[1], number=2),)))
    body = messages.pull_body(publication(), late)
    assert "its first candidate passed all checks" in body
    assert "**Candidate 1**" in body, "not the second round, in which it was found"


def test_giving_up_tells_the_diagnosis_and_why_each_try_is_not_the_repair() -> None:
    failed = Iteration(1, "patterns", "`<` becomes `>`", "-a\n+b", "it fixes the failing tests but breaks `test_b`", "Keep it.")
    told = replace(log(), iterations=(failed,), notes=("Suspicious locations: `f` in calc/core.py, line 3.",))
    text = messages.no_repair_summary(publication(), no_repair(log=told))
    order = (
        "Best diagnosis so far", "The bound is excluded.", "off-by-one", "**Next:** Set a model.", "<details>",
        "Forty changes were tried", "- `<` becomes `>`: it fixes the failing tests but breaks `test_b`", "Suspicious locations",
        "</details>", "<details>", "+b",
    )  # fmt: skip
    at = 0
    for words in order:
        at = text.index(words, at)


def test_a_title_is_one_line_that_fits_a_list() -> None:
    assert "\n" not in messages.title(publication(), repair(title="a\nb"))
    for told, title in (
        ("`<` becomes `<=` in `f` (calc/core.py:3)", "Heal CI: change `<` to `<=` in `f`"),
        ("`x = 1` is dropped (calc/core.py:3)", "Heal CI: drop `x = 1` in core.py"),
        ("`import os` is added", "Heal CI: add `import os` in core.py"),
        ("Handle an empty list", "Heal CI: Handle an empty list in core.py"),
        ("Let core.py add", "Heal CI: Let core.py add"),
    ):
        assert messages.title(publication(), repair(title=told)) == title
    cut = repair(title="`member or amount >= 100` becomes `member and amount >= 100` in `discount` (calc/core.py:7)")
    assert messages.title(publication(pull_number=1), cut) == "Heal #1: change `member or amount >= 100` to… in `discount`", (
        "the place survives"
    )
    assert messages.title(publication(), repair(title=" ")) == "Heal CI: make the failing checks pass"
    where = publication(pull_number=123456, commit_prefix="x" * 30)
    assert len(messages.title(where, repair(title=f"`{'a' * 60}` is added in `{'f' * 60}`"))) <= 72
    for length in range(1, 120):
        long = repair(title=f"`{'x ' * length}` becomes `{'y ' * length}` in `f`")
        subject, blank, *_ = messages.commit_message(publication(), long).split("\n")
        assert blank == ""
        for line in (subject, messages.title(publication(), long)):
            assert len(line) <= 72
            assert line.count("`") % 2 == 0


def test_our_commits_are_known_by_their_trailer() -> None:
    assert messages.is_ours(messages.commit_message(publication(), repair()))
    assert not messages.is_ours("Fix\n\nSelfheal-Attempt: att_1 was wrong\n\nSigned-off-by: a person")


@pytest.mark.parametrize("iterations", [1, 40, 2000])
def test_a_long_log_is_cut_and_the_evidence_is_not(iterations: int) -> None:
    body = messages.pull_body(publication(), repair(log=log(iterations, diff="+é\n" * 3000)))
    assert len(body.encode()) <= BODY_LIMIT
    assert "2 of 2 failed again, 1.0 s" in body
    assert body.rstrip().endswith("</details>")
    assert f"**Candidate {iterations}**" in body  # the latest ones are kept


@pytest.mark.long
def test_very_many_verdicts_and_checks_still_fit() -> None:
    body = messages.pull_body(publication(), repair(evidence=evidence(60, 5000, "t" * 3000), log=log(500)))
    assert len(body.encode()) <= BODY_LIMIT
    assert "… and 30 more checks." in body
    assert re.search(r"… and \d+ more\.", body)
    assert "5000 of 5000 failed" in body


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_a_sentence_and_a_next_step(outcome: Outcome) -> None:
    ending = OUTCOME_TEXTS[outcome]
    assert ending.sentence.endswith(".")
    assert ending.next_step.endswith(".")
    text = messages.no_repair_summary(publication(), no_repair(outcome, next_step=" "))
    known = {Outcome.GAVE_UP: ending.sentence}
    assert text.startswith(known.get(outcome, f"**Not repaired ({uncapitalized(label(outcome))}):** Forty changes were tried."))
    assert ending.next_step.replace("comment `/heal` on a pull request", "re-run the check `Selfheal`") in text
    assert "Forty changes were tried" in text


def test_the_reason_and_next_step_of_the_case_are_told() -> None:
    for text in (
        messages.no_repair_summary(publication(), no_repair()),
        messages.no_repair_comment(publication(), no_repair()),
    ):
        assert "Forty changes were tried." in text
        assert "Set a model." in text


def test_an_explanation_fits_into_a_check_run() -> None:
    text = messages.no_repair_summary(publication(), no_repair(reason="x" * 10**6, log=log(3000)))
    assert len(text.encode()) < CHECK_LIMIT
    # What is said once nothing is left to do fits too.
    folded = messages.folded(messages.moved_on("a" * 40, "b" * 40), text)
    assert text in folded
    assert len(folded.encode()) <= CHECK_LIMIT
    assert messages.folded(messages.green_now("a" * 40), folded) == folded
    assert messages.folded(messages.green_now("a" * 40), too_long := "x" * CHECK_LIMIT) == too_long


def test_configured_secrets_are_hidden_and_not_in_the_repr() -> None:
    where = publication(secrets=("webhook-secret-1",))
    assert "webhook-secret-1" not in messages.pull_body(where, repair(title="webhook-secret-1"))
    assert "webhook-secret-1" not in repr(where)


SAID = "2 of the 140 lines changed since the last commit that passed CI (`3f2a91c0de`): `calc/core.py:3`."


def test_what_broke_the_tests_is_shown_with_its_lines_as_they_were_and_are() -> None:
    result = no_repair(culprit=culprit())
    for text in (messages.no_repair_summary(publication(), result), messages.no_repair_comment(publication(), result)):
        assert "```diff\n--- a/calc/core.py\n+++ b/calc/core.py\n" in text
        assert text.index("-    return limit <= 3") < text.index("+    return limit < 3")
        assert "Without these lines, 1 other test fails: `tests/test_new.py::test_strict`." in text
    summary = messages.no_repair_summary(publication(), result)
    assert f"### What broke it\n\n{SAID}" in summary
    assert "broke it" not in messages.no_repair_summary(publication(), no_repair())


def test_a_test_that_contradicts_the_change_is_shown_with_both_sides() -> None:
    text = messages.no_repair_summary(publication(), no_repair(Outcome.NEEDS_TEST_CHANGE, culprit=culprit()))
    demanded, did = text.index("### How the test fails"), text.index("### What the change did")
    assert demanded < text.index("The bound is excluded") < did < text.index("-    return limit <= 3")
    assert "Best diagnosis" not in text


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"lines": 1, "of": 1}, "The only line changed since"),
        ({"lines": 5, "of": 5}, "All 5 lines changed since"),
        ({"places": (Span("a.py", 3, 3, 1.0, ""), Span("b.py", 4, 9, 1.0, ""))}, ": `a.py:3`, `b.py:4-9`."),
        ({"places": tuple(Span("a.py", n, n, 1.0, "") for n in range(1, 9))}, "`a.py:5` and 3 more places."),
        ({"places": ()}, "the last commit that passed CI"),
    ],
)
def test_the_part_that_broke_the_tests_is_counted_and_placed(changes: dict[str, object], says: str) -> None:
    assert says in messages.no_repair_summary(publication(), no_repair(culprit=culprit(**changes)))


UNCLOSED = "`test_calc` fails with `SyntaxError: '(' was never closed`. It is raised in calc.py:2."
BY_TESTS = Diagnosis(UNCLOSED, "build", 0.3, BY_VERDICTS)


def test_the_title_of_giving_up_tells_what_fails_and_where() -> None:
    failed = no_repair(log=replace(log(), diagnosis=BY_TESTS))
    assert messages.no_repair_title(publication(), failed) == f"Gave up. {BY_TESTS.cause}"
    late = replace(failed, outcome=Outcome.OUT_OF_BUDGET)
    assert messages.no_repair_title(publication(), late) == f"Out of budget. {BY_TESTS.cause}"
    stopped = replace(late, reason="The check `tests` did not finish within 5 s.", log=replace(log(), diagnosis=None))
    assert messages.no_repair_title(publication(), stopped) == "Out of budget. The check `tests` did not finish within 5 s."
    lines = messages.no_repair_comment(publication(), failed).splitlines()
    assert lines[2] == f"**Fails:** {BY_TESTS.cause}"


def test_the_title_of_a_find_is_not_that_nothing_was_found() -> None:
    found = no_repair(culprit=culprit(), reason="One line broke it.")
    assert messages.no_repair_title(publication(), found) == "Cause found. One line broke it."
    assert messages.no_repair_title(publication(), no_repair(suspects=(repair(),), reason="55% sure.")) == "Unsure. 55% sure."


def test_the_receipt_on_a_check_run_is_folded() -> None:
    text = messages.receipt_summary(publication(), repair(), "https://github.com/octo/calc/pull/4")
    assert (
        text.index("selfheal verify https") < text.index("<details>") < text.index('"selfheal": 1') < text.index("</details>")
    )


def test_what_people_copy_from_our_texts_is_intact() -> None:
    healed = messages.pull_body(publication(), repair(evidence=evidence(ids=1, word="test_report")))
    assert "- `test_report[0]`" in healed
    assert ZWSP not in healed
    for step in ("Reopen it, then comment `/heal`.", ON_REQUEST):
        told = no_repair(next_step=step)
        assert step in messages.no_repair_comment(publication(pull_number=1), told)
        assert step in messages.no_repair_summary(publication(pull_number=1), told)
    bracketed = repair(title="`count` becomes `count + old[1]`")
    assert messages.title(publication(), bracketed) == "Heal CI: change `count` to `count + old[1]` in core.py"
