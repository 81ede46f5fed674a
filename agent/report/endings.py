"""The ways to end without a repair: for each, the sentences on what happened and what to do next. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from agent.checks.oracle import Round
from agent.contract import words
from agent.contract.budget import RungCost, Usage
from agent.contract.last_good import Culprit, LastGood
from agent.contract.outcome import ALL_BUT_EXIT, Chance, Flakiness, Outcome, Repair
from agent.contract.proposal import Span
from agent.contract.verdicts import CheckRun, Failure, VerdictId
from agent.contract.words import named
from agent.report import culprits
from agent.source.test_files import is_test

ASK = "ask the operator of Selfheal"  # on a command line, that is the reader
ON_COMMAND_LINE = "On the command line,"  # starts the end of a next step that is left out on GitHub
TEST_OPTION = f"{ON_COMMAND_LINE} `--test` names it too."
THIS_CHANGE = "This change"  # starts a sentence; in a pull request, "This pull request" says the same


@dataclass(frozen=True, slots=True)
class Ending:
    outcome: Outcome
    reason: str  # one sentence
    next_step: str  # one sentence
    flakiness: Flakiness | None = None


def not_reproduced(base: Round, rounds: int, probed: int = 0, *, failed_in_ci: bool) -> Ending:
    """`probed` counts the runs with other test orders, seeds and clocks."""
    passed = words.counted(sum(len(run.green) for run in base), "result")
    more = f" {words.counted(probed, 'more run')} with other test orders, seeds and clocks passed too." if probed else ""
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"Nothing failed here: {passed} of {_checks(base)} passed {words.in_runs(rounds)}.{more}",
        "Rerun the job. If it fails again, name the command that fails under `test:` in `.github/selfheal.yml`."
        if failed_in_ci
        else "If another check fails, name its command under `test:` in `.github/selfheal.yml`. "
        f"{ON_COMMAND_LINE} `--job` names its job, `--test` its command, and `selfheal fix --flaky` tries other orders "
        "and clocks.",
    )


def nothing_failed(base: Round) -> Ending:
    return Ending(
        Outcome.NOTHING_FAILED,
        f"There was nothing to repair: {_checks(base)} ran and reported no tests and no findings.",
        f"Name the failing command under `test:` in `.github/selfheal.yml`. {TEST_OPTION}",
    )


def all_skipped(base: Round, absent: Sequence[str]) -> Ending:
    """`absent` is what the sandbox lacks: modules, and folders of submodules with a slash at the end."""
    counted = words.counted(sum(len(run.verdicts) for run in base), "result")
    folders = [name for name in absent if name.endswith("/")]
    fetch = f" {ON_COMMAND_LINE} `git submodule update --init` fetches submodules." if folders else ""
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"No test of {_checks(base)} could run: {counted} skipped, and the sandbox lacks {named(absent)}.",
        f"Make it available, or set `test:` in `.github/selfheal.yml` to tests that do not need it.{fetch}",
    )


def unsure(suspect: Repair, least: float) -> Ending:
    """For a change with which the tests pass, but which may not be the right one: with rivals, the question is which one is."""
    others, title = max(suspect.alternatives, len(suspect.choices)), words.capitalized(suspect.title)
    if not others:
        return Ending(
            Outcome.GAVE_UP,
            f"{title} ({words.percent(suspect.confidence)} sure; a pull request needs {words.percent(least)}).",
            "If the possible repair is right, apply it. If not, add a test that fails with it: it helps the next attempt.",
        )
    if others == len(suspect.choices) == 1:
        reason = f"The tests allow two repairs{_both(suspect.title, suspect.choices[0])}. Which is right?"
    else:
        passes = "1 other change passes" if others == 1 else f"{others:,} other changes pass"
        reason = f"{title}. {passes} too; which is right?"
    return Ending(Outcome.GAVE_UP, reason, "Apply the right one, or add a test that only the right one passes.")


_BECOMES = re.compile(r"(`[^`]+`) becomes (`[^`]+`)(.*)", re.DOTALL)


def _both(one: str, other: str) -> str:
    """ " in `f` (a.py:3), `[1:]` and `[-1:]`" for two changes of the same text at the same place; else both titles."""
    mine, its = _BECOMES.fullmatch(one), _BECOMES.fullmatch(other)
    if mine is not None and its is not None and (mine[1], mine[3]) == (its[1], its[3]):
        return f"{mine[3]}, {mine[2]} and {its[2]}"
    return f": {one}, or {other}"


ON_REQUEST = "Flaky tests are repaired on request only: comment `/heal flaky` on a pull request."


def flaky(found: Flakiness, why: str = "") -> Ending:
    """`why` says why it is not repaired although someone asked for that, as a sentence."""
    evidence = f" ({'; '.join(found.evidence)})" if found.evidence else ""
    return Ending(
        Outcome.FLAKY,
        f"{words.capitalized(named(found.ids))} failed in {found.red} of {found.runs} runs of the same code. "
        f"Suspected cause: {found.cause}{evidence}.{f' {why}' if why else ''}",
        f"{_ADVICE[found.cause]}."
        if why
        else f"{_ADVICE[found.cause]}. {ON_REQUEST} {ON_COMMAND_LINE} use `selfheal fix --flaky`.",
        found,
    )


_ADVICE: Mapping[Chance, str] = MappingProxyType(
    {
        "order": "Let each test set up and tear down its own state, so that none depends on earlier tests",
        "time": "Pass the code a clock that tests can set, instead of reading the system's date and time zone",
        "randomness": "Sort unordered collections such as sets, and fix the random seed",
        "network": "Run a server in the tests instead of using the network",
        "concurrency": "Wait for an explicit signal (a lock, an event, a join) instead of relying on timing",
        "unknown": "Check the named tests for dependence on time, order, randomness and shared state",
    }
)


def needs_network(ids: Sequence[VerdictId], sign: str, rounds: int) -> Ending:
    """For failures that mention the network both here and in CI's log."""
    evidence = f"CI's log and the traceback here mention the network ({words.code(sign, 60)}), and the sandbox has none"
    return flaky(Flakiness(tuple(ids), rounds, rounds, "network", (evidence,)))


def not_this_change(ids: Sequence[str], good: LastGood, sign: str, *, failed_in_ci: bool) -> Ending:
    """For failures that all occur at the last good commit too. `sign` is a text that shows what is missing, or ""."""
    shows = f" ({words.code(sign, 80)})" if sign else ""
    fail = "fails" if len(ids) == 1 else "fail"
    start = "CI's failure was not reproduced: " if failed_in_ci else ""
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"{start}{words.capitalized(named(ids))} {fail} here{shows}, but {fail} at {good.name} too, "
        "so the change since then is not the cause.",
        "If the sandbox lacks what these tests need, exclude them with `test:` in `.github/selfheal.yml`."
        + ("" if failed_in_ci or good.passed_in_ci else f" {ON_COMMAND_LINE} `--good` names a commit before they broke."),
    )


def red_without_network(ids: Sequence[VerdictId], sign: str) -> Ending:
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"CI's failure was not reproduced: {named(ids)} failed here because the sandbox has no network "
        f"({words.code(sign, 60)}), and CI's log does not mention the network.",
        _ADVICE["network"] + ", or set `test:` in `.github/selfheal.yml` to tests that run without it.",
    )


def needs_the_network(ids: Sequence[VerdictId], sign: str) -> Ending:
    """For failures that mention the network here, if CI's log is not available."""
    return Ending(
        Outcome.NEEDS_SERVICES,
        f"{words.capitalized(named(ids))} failed because the sandbox has no network ({words.code(sign, 60)}). "
        "CI's log is not available.",
        _ADVICE["network"] + ", or set `test:` in `.github/selfheal.yml` to tests that run without it.",
    )


def limited(ids: Sequence[VerdictId], what: str, sign: str) -> Ending:
    """For failures at the sandbox's limit `what`, or for want of a "browser" or "locale". `sign` is the text that shows it."""
    if what in ("browser", "locale"):
        lacks = "has no browser" if what == "browser" else "lacks a locale that they set"
        return Ending(
            Outcome.INFRASTRUCTURE,
            f"{words.capitalized(named(ids))} failed because the sandbox {lacks} ({words.code(sign, 80)}).",
            f"Set `test:` in `.github/selfheal.yml` to tests that need no {what}, or {ASK} for an image that has one.",
        )
    more = (
        f"{words.capitalized(ASK)} to raise the sandbox's limit (`SELFHEAL_SANDBOX_MEMORY_MB`), or set"
        if what == "memory"
        else "Reduce what the tests use, or set"
    )
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"{words.capitalized(named(ids))} reached the sandbox's {what} limit ({words.code(sign, 80)}), "
        "so the code may not be at fault.",
        f"{more} `test:` in `.github/selfheal.yml` to a command that stays below the limit.",
    )


def stopped(run: CheckRun, command: str) -> str:
    """What a timeout stopped, as a sentence. `command` is the line of the check that tests."""
    hung = [failure.id for failure in run.failures if failure.message.startswith(words.HUNG)]
    during = f" while {named(hung, 1)} ran" if hung else f"; it last printed {words.code(last_line(run.output), 100)}"
    return f"{words.code(command, 100)} was stopped after {words.took(run.seconds)}{during}."


MORE_BUDGET = "A larger `budget:` in `.github/selfheal.yml`, up to the operator's limit, may get further."
MORE_TIME = (
    "If it needs longer, raise the limit: `timeout:` of `test:` in `.github/selfheal.yml`, or the step's `timeout-minutes:`."
)


def inconclusive(run: CheckRun, command: str, red: Sequence[VerdictId] = ()) -> Ending:
    """For a check of which a run ended too early. `red` failed in another run. `command` as for `stopped`."""
    took, last = words.took(run.seconds), last_line(run.output)
    printed = " and printed nothing." if last == _SILENT else f"; the last line was: {last}"
    seen = f". The failure of {named(red)} in another run could not be confirmed" if red else ""
    if run.ending == "timeout":
        return Ending(
            Outcome.OUT_OF_BUDGET,
            f"The check `{run.check}` did not finish within {took}{seen or ' and reported no failing test'}. "
            f"It ran {words.code(command, 100)}{printed}",
            f"{MORE_TIME} The operator limits the whole attempt by `SELFHEAL_MAX_SECONDS`.",
        )
    how = "ran out of memory" if run.ending == "out_of_memory" else "crashed before it reported any result"
    if red:
        how = "ran out of memory once" if run.ending == "out_of_memory" else "crashed once"
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The check `{run.check}` {how}{seen or ', so it says nothing about the code'}: {last}",
        f"Fix what the check needs to start, or {ASK} to raise the sandbox's limits.",
    )


def could_not_start(run: CheckRun) -> Ending:
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The check `{run.check}` exited with code {run.exit_code} and reported no result: {last_line(run.output)}",
        "Fix the command or what it needs to start (a missing program or option), then try again.",
    )


def stopped_before(run: CheckRun, source: str = "") -> Ending:
    """For a step or a service before the check that failed here but not in CI. `source`: the check's, for people."""
    printed, _, added = run.output.rpartition("\n")  # Selfheal added the last line
    last = last_line(printed)
    how = f"did not finish within {words.took(run.seconds)}" if run.ending == "timeout" else "failed"
    if run.stopped_at.startswith("service "):
        why = words.uncapitalized(added.partition(" could not be started: ")[2].rstrip(".")) or "it did not answer"
        log = f"; its log ends with {words.code(last, 120)}" if last != _SILENT else ""
        return Ending(
            Outcome.NEEDS_SERVICES,
            f"The check `{run.check}`{f' ({source})' if source else ''} needs the {run.stopped_at}, which did not start in the "
            f"sandbox: {why}{log}.",
            "Check the service's image, variables and options in the workflow, or set `test:` in `.github/selfheal.yml` to "
            "tests that do not need it.",
        )
    return Ending(
        Outcome.NOT_REPRODUCED,
        f"The failing step was not reached: the earlier step `{run.stopped_at}` {how} in the sandbox: {last}",
        "If that step needs the network or a program, set `test:` in `.github/selfheal.yml` to the failing command.",
    )


_SILENT = "it printed nothing"


def last_line(output: str) -> str:
    """The last line that says something, for a sentence. After a wrong option, pytest adds where it is configured."""
    lines = (line.strip()[:200] for line in reversed(output.splitlines()))
    return next((line for line in lines if line and not line.startswith(("inifile: ", "rootdir: "))), _SILENT)


def limit_reached(problem: str) -> Ending:
    return Ending(
        Outcome.INFRASTRUCTURE,
        f"The failing checks could not run: {problem}.",
        f"Make the checks use less, or {ASK} to raise the sandbox's limits.",
    )


def out_of_budget(bound: str, tried: int) -> Ending:
    return Ending(
        Outcome.OUT_OF_BUDGET,
        f"{words.capitalized(bound)} ({_judged(tried)}).",
        f"Start at the failure and at the changes that failed. {MORE_BUDGET}",
    )


def rejected(what: str, why: str) -> Ending:
    """The person who was asked rejected `what`."""
    return Ending(Outcome.CANCELLED, f"A person rejected {what}{f': {why}' if why else ''}.", "To try again, comment `/heal`.")


def needs_test_change(cause: str) -> Ending:
    return Ending(
        Outcome.NEEDS_TEST_CHANGE,
        f"Every proposed repair edits tests or their configuration, which the policy forbids. {cause}".rstrip(),
        "If the test is wrong, change it, or set `allow_test_edits: true` in `.github/selfheal.yml`. If not, repair the code.",
    )


def broken_by_change(culprit: Culprit, failure: Failure, *, may_be_intended: bool, failing: int = 1) -> Ending:
    """For failures that a known part of the last change causes. `failure` is the first of `failing` verdicts."""
    what = f"{failing:,} results, such as {named([failure.id])}" if failing > 1 else named([failure.id])
    broke = f"{words.capitalized(culprits.part(culprit))} {'breaks' if culprit.lines == 1 else 'break'} {what}"
    places = culprits.locations(culprit)
    broke += f": {places}." if places else "."
    side, if_intended = "", " If it is intended, update the test." if may_be_intended else ""
    if failure.message.startswith(words.HUNG):
        side = f" The test {failure.message}."
    elif is_slip(failure):
        side, if_intended = f" The code fails with {words.code(failure.message)}.", ""
    elif failure.message and may_be_intended:
        side = f" The change and the test contradict each other: {words.code(failure.message)}."
    return Ending(
        Outcome.NEEDS_TEST_CHANGE if may_be_intended else Outcome.GAVE_UP,
        f"{broke}{side}{culprits.needed_by(culprit)}",
        f"If this part of the change is a mistake, correct it or take it back.{if_intended} "
        f"{ON_COMMAND_LINE} `selfheal fix --allow-reversals` takes it back.",
    )


_SLIPS = ("NameError", "UnboundLocalError", "SyntaxError", "IndentationError", "TabError")


def is_slip(failure: Failure) -> bool:
    """Whether nobody can have intended it: code outside of tests that no longer compiles or uses an undefined name."""
    return failure.message.startswith(_SLIPS) and bool(failure.frames) and not is_test(failure.frames[-1].path)


def gave_up(
    tried: int,
    rungs: Sequence[RungCost],
    suspects: Sequence[Span],
    since: str = "",
    *,
    objections: Sequence[str] = (),
    believed: str = "",
) -> Ending:
    """`tried` counts the changes that the gate judged; `suspects` are the suspicious locations, most suspicious first.

    `since` says whose change broke the tests, as `Regression.since`, if that is known. `objections` are the reasons against
    changes that pass the tests, and `believed` is the location that a model is sure of.
    """
    why = "; ".join(_efforts(rungs)) or "no source of patches is enabled"
    gate = f" {_judged(tried)}; none was accepted." if tried else ""
    if tried and objections:
        pass_ = "passes" if len(objections) == 1 else "pass"
        gate += (
            f" {words.counted(len(objections), 'change')} {pass_} the tests; the last was rejected because {objections[-1]}."
        )
    if believed:
        start = f"By the model's diagnosis, the fault is in {words.code(believed, 160)}. Start there."
    elif suspects:
        start = _start(suspects[0], is_change_known=bool(since))
    else:
        start = f"Start at the failure{' and at the changes that failed' if tried else ''}."
    return Ending(Outcome.GAVE_UP, f"{words.capitalized(why)}.{gate}", start)


def all_but_the_exit(ending: Ending, changes: int, result: str) -> Ending:
    """`ending`, where so many changes made the failing tests pass and the command failed all the same; the last result."""
    why = f"the command still exits with{result.removeprefix(ALL_BUT_EXIT)}".rstrip(".")
    makes = "makes" if changes == 1 else "make"
    return replace(
        ending,
        reason=f"{ending.reason} {words.counted(changes, 'change')} {makes} the failing tests pass, but {why}.",
        next_step=f"Look at the last of these changes, and at what the command does after its tests. {ending.next_step}",
    )


def _start(suspect: Span, *, is_change_known: bool) -> str:
    """Where to look first, why there, and whether the change that broke the tests touched that place."""
    place, reason = culprits.numbered(suspect), suspect.reason
    is_raised, is_red = "in the traceback" in reason, "in failing tests only" in reason
    if reason.startswith("changed "):
        why = ", where it fails" if is_raised else ", which only failing tests run" if is_red else ""
        return f"{THIS_CHANGE} touched {words.code(place)}{why}. Start there."
    where = f"{words.code(suspect.name, 80)} ({place})" if suspect.name else words.code(place)
    where += ", which this change did not touch" if is_change_known else ""
    if is_raised:
        return f"It fails in {where}. Start there."
    return (
        f"Only failing tests run {where}. Start there." if is_red else f"Start at {where}{f': it {reason}' if reason else ''}."
    )


def _efforts(rungs: Sequence[RungCost]) -> list[str]:
    """What each rung did over all its rounds, as a clause with its last note."""
    whole = []
    for name in dict.fromkeys(cost.rung for cost in rungs):
        rounds = [cost for cost in rungs if cost.rung == name]
        note = next((c.note for c in reversed(rounds) if c.note), "")
        tried, passed = sum(c.tried for c in rounds), sum(c.passed for c in rounds)
        whole.append(words.effort(RungCost(name, sum(c.seconds for c in rounds), tried, passed, Usage(), note)))
    return whole


def _judged(tried: int) -> str:
    return f"{words.counted(tried, 'change')} {'was' if tried == 1 else 'were'} fully checked"


def _checks(base: Round) -> str:
    return ", ".join(f"`{run.check}`" for run in base) or "no check"
