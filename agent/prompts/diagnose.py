"""What a role that looks for the fault is shown: the values of its template, within a number of tokens. Foreign text is quoted.

The counts aim at a first prompt of some 2,000 tokens, as many as a cheap repair can afford; what has no room can be asked for.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from agent.contract.outcome import Iteration
from agent.diagnosis.evidence import CATEGORIES
from agent.models.values import Prompt
from agent.prompts import excerpts, render
from agent.prompts import failures as failing
from agent.prompts.excerpts import View
from agent.proposer import Situation
from agent.report.reflection import fenced
from agent.source.test_files import is_test

FAILURES, CODE, CODE_AFTER_FAILURE = 600, 2_100, 2_400  # tokens, as `estimate_tokens` counts them
HINTS, MEMORY, TRIED = 900, 700, 700  # characters: of a hint, of an earlier repair, of a failed change's lines
MOST_SHOWN, SHOWN = 3, 1_000  # places that an answer may ask for, tokens of them
_SHOW = re.compile(r"^[\s*`-]*SHOW:?\s+`?([\w./-]+\.(?:pyi?|[cm]?[jt]sx?|go|rs|java|kt)(?:::[\w.]+|:\d+))", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Shown:
    """A prompt, and the files whose code is in it."""

    prompt: Prompt
    paths: tuple[str, ...]
    places: frozenset[str]  # functions and constants, "path::Class.method"

    def has(self, path: str, name: str) -> bool:
        """Is the code of this function in it? The name may lack its class."""
        names = [known for place in self.places for home, _, known in [place.partition("::")] if home == path]
        return any(
            known == name or name.startswith(f"{known}.") or ("." not in name and known.endswith(f".{name}")) for known in names
        )


async def repair(situation: Situation, room: int, cause: str, asked: Sequence[str] = ()) -> Shown:
    """`room` is what the prompt may have, in tokens; `cause` is what this change shall mend, "" where nothing is known.

    `asked` are places that the answer before asked for: they come first now, and little else beside them.
    """
    values, found = await _values(situation, room, asked)
    prompt = render(
        "repair",
        **values,
        others=_by_file(found.others),
        cause=cause,
        asked=bool(asked),
        guidance=situation.policy.guidance,
        strategy=situation.strategy.partition(":")[0],
    )
    return Shown(prompt, _paths(found), found.shown)


def asked_for(answer: str) -> list[str]:
    """The places that an answer's SHOW lines name."""
    return list(dict.fromkeys(_SHOW.findall(answer)))[:MOST_SHOWN]


async def more(situation: Situation, wanted: Sequence[str]) -> tuple[str, tuple[str, ...]]:
    """The code of further places, quoted ("" where none is there), and its files. Tests' code too: it is no secret."""
    found = await excerpts.at(situation, wanted, SHOWN)
    told = "\n\n".join(f"# {each.title}\n{fenced(each.text, each.language)}" for each in found.excerpts)
    return told, _paths(found)


def _paths(found: View) -> tuple[str, ...]:
    return tuple(dict.fromkeys(each.path for each in found.excerpts if not is_test(each.path)))


async def diagnose(situation: Situation, room: int, *, has_history: bool, steps: int) -> Prompt:
    """`steps` is how many messages with tool calls will be answered."""
    values, found = await _values(situation, room)
    return render(
        "diagnose",
        **values,
        categories=", ".join(CATEGORIES),
        has_history=has_history,
        steps=steps,
        others=_by_file(found.others),
    )


async def _values(situation: Situation, room: int, asked: Sequence[str] = ()) -> tuple[dict[str, object], View]:
    """What every role that looks for the fault is shown."""
    room -= 1_200  # the template, and a second asking
    code = CODE if situation.round == 1 else CODE_AFTER_FAILURE
    failures = failing.told(failing.red(situation), max(100, min(FAILURES, room // 4)))
    found = await excerpts.view(situation, max(100, min(code, room // 2)), asked)
    return {
        "failures": failures,
        "excerpts": found.excerpts,
        "hints": _hints(situation, failures),
        "memories": _memories(situation),
        "tries": "\n\n".join(map(_try, situation.earlier)),
        "lessons": _bullets(tuple(each for each in situation.lessons if not _is_told(each, situation.earlier))),
        "refuted": _bullets(situation.refuted),
    }, found


def _by_file(places: Sequence[str]) -> str:
    """One line a file, without what may be said only once."""
    names: dict[str, list[str]] = {}
    for place in places:
        path, _, name = place.partition("::")
        names.setdefault(path, []).append(name)
    return "\n".join(f"{path}: {', '.join(known)}" for path, known in names.items())


def _hints(situation: Situation, failures: str) -> str:
    """Of each hint the end, without what the failures say already."""
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
    """A failed change with the lines that it took away and put in, as far as they are few, and what came of it."""
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


def _is_told(lesson: str, tries: Sequence[Iteration]) -> bool:
    return any(each.title and lesson.startswith(each.title[:160]) for each in tries)


def _bullets(lines: tuple[str, ...]) -> str:
    return "\n".join(f"- {line}" for line in lines)
