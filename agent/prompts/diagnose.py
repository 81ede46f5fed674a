"""The prompts for diagnosis and repair, within a token limit. Foreign text is quoted.

The sizes aim at a first prompt of about 2,000 tokens, which a cheap repair can afford; models can ask for more.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.contract.outcome import Iteration
from agent.diagnosis.evidence import CATEGORIES
from agent.edits.changes import diff
from agent.edits.reversals import inverted
from agent.models.values import Prompt
from agent.prompts import excerpts, render
from agent.prompts import failures as failing
from agent.prompts.excerpts import View
from agent.proposer import Situation
from agent.report.reflection import fenced
from agent.source.test_files import is_test

FAILURES, CODE, CODE_AFTER_FAILURE = 600, 2_100, 2_400  # tokens, as `estimate_tokens` counts them
HINTS, MEMORY, TRIED = 900, 700, 700  # characters: of a hint, of an earlier repair, of a failed change's lines
CHANGE = 1_500  # characters of what changed since the last good commit
SEEN = 2_000  # characters of what the debugger saw
MOST_SHOWN, SHOWN = 3, 4_000  # locations that an answer may ask for, their tokens at most
SHOWN_SHARE = 3  # of the tokens that a prompt can have, they get one in this many
_SHOW = re.compile(r"^[ \t*`-]*+SHOW:?[ \t]++`?([\w./-]+\.(?:pyi?|[cm]?[jt]sx?|go|rs|java|kt)(?:::[\w.]+|:\d+))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt, and the code that it shows."""

    prompt: Prompt
    paths: tuple[str, ...]
    places: frozenset[str]  # functions and constants, "path::Class.method"

    def has(self, path: str, name: str) -> bool:
        """Does the prompt show this function? The name can lack its class."""
        names = [known for place in self.places for home, _, known in [place.partition("::")] if home == path]
        return any(
            known == name or name.startswith(f"{known}.") or ("." not in name and known.endswith(f".{name}")) for known in names
        )


async def repair(situation: Situation, room: int, cause: str) -> Shown:
    """`room` is the prompt's limit in tokens; `cause` is what the change should fix, or ""."""
    values, found = await _values(situation, room)
    prompt = render(
        "repair",
        **values,
        others=_by_file(found.others),
        cause=cause,
        observed=_observed(situation, cause),
        guidance=situation.policy.guidance,
        strategy=situation.strategy.partition(":")[0],
    )
    return Shown(prompt, _paths(found), found.shown)


def _observed(situation: Situation, cause: str) -> str:
    """What the debugger saw: its evidence for this cause, and what it ran."""
    known = situation.diagnosis
    if known is None or not cause:
        return ""
    return "\n".join([*(f"- {each}" for each in known.evidence if cause == known.cause), *known.observed])[:SEEN]


def asked_for(answer: str) -> list[str]:
    """The locations named by an answer's SHOW lines."""
    return list(dict.fromkeys(_SHOW.findall(answer)))[:MOST_SHOWN]


async def more(situation: Situation, wanted: Sequence[str], room: int) -> tuple[str, tuple[str, ...]]:
    """The code of further locations, quoted, and what of it is not shown ("" if there is none), and its files.

    Tests are included: they are not secret. `room`: the tokens that a prompt can have.
    """
    found, missing = await excerpts.at(situation, wanted, min(SHOWN, room // SHOWN_SHARE))
    texts = [f"# {each.title}\n{fenced(each.text, each.language)}" for each in found.excerpts]
    return "\n\n".join([*texts, *missing] if texts else []), _paths(found)


def _paths(found: View) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.path for each in found.excerpts if not is_test(each.path)))


async def diagnose(situation: Situation, room: int, *, has_history: bool, steps: int) -> Prompt:
    """`steps` limits the messages with tool calls."""
    values, found = await _values(situation, room)
    return render(
        "diagnose",
        **values,
        categories=", ".join(CATEGORIES),
        has_history=has_history,
        steps=steps,
        others=_by_file(found.others),
    )


async def _values(situation: Situation, room: int) -> tuple[dict[str, object], View]:
    """The values that both prompts share."""
    room -= 1_200  # the template, and one more exchange
    code = CODE if situation.round == 1 else CODE_AFTER_FAILURE
    failures = failing.as_text(failing.red(situation), max(100, min(FAILURES, room // 4)))
    found = await excerpts.view(situation, max(100, min(code, room // 2)))
    tried = tuple(each.title[:160] for each in situation.earlier if each.title)
    return {
        "failures": failures,
        "excerpts": found.excerpts,
        "change": await asyncio.to_thread(_change, situation),
        "hints": _hints(situation, failures),
        "memories": _memories(situation),
        "tries": "\n\n".join(map(_try, situation.earlier)),
        "lessons": _bullets(tuple(lesson for lesson in situation.lessons if not lesson.startswith(tried))),
        "refuted": _bullets(situation.refuted),
    }, found


def _by_file(places: Sequence[str]) -> str:
    """One line per file."""
    names: dict[str, list[str]] = {}
    for place in places:
        path, _, name = place.partition("::")
        names.setdefault(path, []).append(name)
    return "\n".join(f"{path}: {', '.join(known)}" for path, known in names.items())


def _change(situation: Situation) -> str:
    """The part of the last change that broke the checks; if it is not known, the whole change, bounded."""
    if situation.regression is None:
        return ""
    part = situation.culprit.reversal if situation.culprit is not None else situation.regression.reversal
    suspected = [span.path for span in situation.suspects]
    first = sorted(inverted(part), key=lambda edit: suspected.index(edit.path) if edit.path in suspected else len(suspected))
    shown = ""
    for edit in first:
        if len(shown) >= CHANGE:
            break
        shown += diff((edit,), context=1)
    return shown if len(shown) <= CHANGE else f"{shown[:CHANGE]}\n… (cut)"


def _hints(situation: Situation, failures: str) -> str:
    """The end of each hint, without lines that the failures already contain."""
    told = []
    for hint in situation.hints:
        new = [line for line in hint.splitlines() if line.strip() and line.strip().removeprefix("E").strip() not in failures]
        told.append("\n".join(dict.fromkeys(new))[-HINTS:])
    return "\n\n".join(hint for hint in told if hint)[-2 * HINTS :]


def _memories(situation: Situation) -> str:
    told = []
    for memory in situation.memories[:2]:
        learned = "\n".join([memory.title, *memory.lessons[:3], memory.diff[:MEMORY]]).strip()
        if learned:
            told.append(f"({memory.outcome}) {learned}")
    return "\n\n".join(told)


def _try(failed: Iteration) -> str:
    """A failed change: its title, first changed lines, result and lesson."""
    told, left = [], TRIED
    for line in failed.diff.splitlines():
        if line.startswith(("--- ", "@@", " ")) or not line:
            continue
        line = line.removeprefix("+++ b/")
        left -= len(line) + 1
        if left < 0:
            told.append("…")
            break
        told.append(line)
    return "\n".join([failed.title[:160], *told, f"=> {failed.result[:500]}", failed.lesson]).strip()


def _bullets(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)
