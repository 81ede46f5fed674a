"""Hostile variants of real samples. All that is random comes from `chance`, so that a seed repeats a case."""

from __future__ import annotations

import copy
import json
import random
import re
from collections.abc import Sequence
from typing import Any

HUGE = ("0", "-1", "9" * 25, "-" + "9" * 25, "1e999", "1" * 5000, "0x" + "f" * 40, "٣", "²", "NaN", "18446744073709551616")
NASTY = (
    "\0", "\r", "\x1b[31m", "\x1b]8;;", "\u202e", "\u2066", "\ufeff", "\u2028", "\x85", "\x0c", "\x1c", "\ud800", "\udfff\ud800",
    "\U0010ffff", "İ", "ß", "e\u0301" * 50, "..", "../" * 40, "/" * 50, "\\", "'", '"', "`" * 3, "$", "${{ ", " }}", "{{", "%s%n", "<!--",
    "<![CDATA[", "&a;", "\n", "\n\n", "\t", "    ", ":", "- ", "#", "*", "&a", "*a", "!!python/object:os.system", "@@ -1,1 +1,1 @@", "None",
)  # fmt: skip
BRACKETS = ("()", "[]", "{}", "<>", "${{ }}")
LONG = (300, 3_000, 70_000)
WRONG: tuple[Any, ...] = (
    None, True, "", "x", 0, -1, 2**63, 10**400, 1e308, float("inf"), [], {}, [None], {"x": None}, [[["x"]]], "\0", "\ud800", "${{ github.sha }}",
    "a" * 70_000, [1] * 3_000,
)  # fmt: skip
_MOST = 2_000_000  # characters of a case
_NUMBER = re.compile(r"\d+")
_WORD = re.compile(r"[\w./-]+")


def text(chance: random.Random, samples: Sequence[str], most: int = _MOST) -> str:
    """One of the samples, changed in one to six places; at most `most` characters."""
    found = chance.choice(samples)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        found = _change(chance, found, samples)[:most]
    return found


def _change(chance: random.Random, old: str, samples: Sequence[str]) -> str:
    lines = old.split("\n")
    at = chance.randrange(len(lines))
    here = chance.randrange(len(old) + 1)
    match chance.randrange(13):
        case 0:
            del lines[at : at + chance.choice((1, 1, 5))]
        case 1:  # one line, or a few, many times
            few = lines[at : at + chance.choice((1, 2, 10))]
            lines[at:at] = few * _times(few, chance.choice((1, 2, 50, 2_000)))
        case 2:
            other = lines[chance.randrange(len(lines))]
            lines[at], lines[lines.index(other)] = other, lines[at]
        case 3:  # a part of another sample
            other_lines = chance.choice(samples).split("\n")
            start = chance.randrange(len(other_lines))
            lines[at:at] = other_lines[start : start + chance.choice((1, 5, 50))]
        case 4:
            lines[at] = chance.choice(("", " ", "    ", "\t", "        ")) + lines[at].lstrip()
        case 5:
            return old[:here]
        case 6:
            return old[:here] + chance.choice(NASTY) + old[here:]
        case 7:
            return old[:here] + chance.choice((*NASTY, *"ab 0-=.:/")) * chance.choice(LONG) + old[here:]
        case 8:
            opened, closed = (pair := chance.choice(BRACKETS))[: len(pair) // 2], pair[len(pair) // 2 :]
            deep = chance.choice((20, 150, 1_500, 20_000))
            return (
                old[:here] + opened * deep + chance.choice(("", "1")) + closed * chance.choice((0, deep - 1, deep)) + old[here:]
            )
        case 9:
            return _one(chance, _NUMBER, old, chance.choice(HUGE))
        case 10:
            return _one(chance, _WORD, old, chance.choice((*HUGE, *NASTY, chance.choice(_WORD.findall(old) or [""]))))
        case 11:
            word = chance.choice(_WORD.findall(old) or ["x"]) + chance.choice(" ./-,:")
            return _one(chance, _WORD, old, word * _times([word], chance.choice((2, 40, 3_000))))
        case _:
            return old[:here] + old[here + chance.choice((1, 3, 40, 500)) :]
    return "\n".join(lines)


def _times(texts: Sequence[str], times: int) -> int:
    """At most so many times that a few million characters come out: more is for the limits of files, not for their readers."""
    return min(times, 1 + _MOST // sum(len(text) + 1 for text in texts))


def _one(chance: random.Random, pattern: re.Pattern[str], old: str, new: str) -> str:
    """One of the places where the pattern is found, replaced."""
    found = list(pattern.finditer(old))
    if not found:
        return old + new
    at = chance.choice(found)
    return old[: at.start()] + new + old[at.end() :]


def value(chance: random.Random, sample: object) -> Any:
    """A JSON value with one to four places changed: another value, another place's, none, nested, or repeated."""
    whole = {"": json.loads(json.dumps(sample))}
    for _ in range(chance.choice((1, 1, 2, 4))):
        places = list(_places(whole))
        holder, key = chance.choice(places)
        match chance.randrange(7):
            case 0 | 1:
                holder[key] = copy.deepcopy(chance.choice(WRONG))
            case 2:
                other, name = chance.choice(places)
                holder[key] = json.loads(json.dumps(other[name]))
            case 3 if holder is not whole:
                del holder[key]
            case 4:
                holder[key] = {"x": holder[key]} if chance.random() < 0.5 else [holder[key]] * chance.choice((1, 2, 30))
            case 5 if isinstance(holder, dict):
                holder[chance.choice((*NASTY, "x" * 3_000, f"{key} "))] = holder[key]
            case _:
                if isinstance(holder[key], str):
                    holder[key] = text(chance, [holder[key] or "x"], 100_000)
    return whole.get("")


def _places(holder: Any) -> list[tuple[Any, Any]]:
    found, waiting = [], [holder]
    while waiting:
        here = waiting.pop()
        pairs = here.items() if isinstance(here, dict) else enumerate(here) if isinstance(here, list) else ()
        for key, inner in pairs:
            found.append((here, key))
            waiting.append(inner)
        if len(found) > 2_000:
            break
    return found


def raw(chance: random.Random, content: bytes) -> bytes:
    """Bytes with one to five of them changed, removed, repeated or cut."""
    for _ in range(chance.choice((1, 2, 5))):
        at = chance.randrange(len(content) + 1)
        match chance.randrange(5):
            case 0:
                content = content[:at] + bytes([chance.randrange(256)]) + content[at + 1 :]
            case 1:
                content = (
                    content[:at]
                    + chance.choice((b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\0" * 512, b"\xff" * 600))
                    + content[at:]
                )
            case 2:
                content = content[:at]
            case 3:
                content = content[:at] + content[at + chance.choice((1, 10, 512)) :]
            case _:
                content = (
                    content[:at] + content[at : at + chance.choice((10, 512, 4096))] * chance.choice((2, 40)) + content[at:]
                )
    return content
