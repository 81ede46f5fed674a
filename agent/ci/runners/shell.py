"""Takes a line of shell text apart into simple commands and the operators between them, and puts it together again.

Not a shell: what it does not take apart (compound commands, command substitution) stays one piece.
"""

from __future__ import annotations

import posixpath
import re
import shlex
from collections.abc import Mapping

_COMPOUND = re.compile(r"(?:^|[\s;&|])(?:if|for|while|until|case|do|then|fi|done|esac|function)(?=$|[\s;])|<<|\$\(|`|[(){}]")
_OPERATOR = re.compile(r"\s*(&&|\|\||;|\|)\s*")
_OPEN = 200  # lines of one quoted text or here-document
_QUOTED = re.compile(r"'[^']*'|\"(?:\\.|[^\"\\])*\"|\\.", re.DOTALL)


def pieces(line: str) -> list[str]:
    """`a && b "x;y"` → ["a", "&&", 'b "x;y"']; a line that is more than simple commands is one piece."""
    kept: list[str] = []

    def hide(match: re.Match[str]) -> str:
        kept.append(match[0])
        return f"\x00{len(kept) - 1}\x00"

    # `$(…)` inside double quotes counts, too.
    if "\x00" in line or any("$(" in quoted or "`" in quoted for quoted in _QUOTED.findall(line) if quoted[0] == '"'):
        return [line]
    hidden = _QUOTED.sub(hide, line)
    bare = re.sub(r"\$\{\w+[^{}]*\}", "", hidden)
    if _COMPOUND.search(bare) or "'" in bare or '"' in bare:
        return [line]
    parts = _OPERATOR.split(hidden)
    return [re.sub("\x00(\\d+)\x00", lambda match: kept[int(match[1])], part) for part in parts]


def lines(text: str) -> list[str]:
    """The lines of shell text; one that goes on (a backslash, open quotes, a here-document) is a single one."""
    found: list[str] = []
    waiting = ""  # what ends a here-document
    opened: list[str] = []
    for line in text.replace("\\\n", " ").split("\n"):
        opened.append(line)
        ended = False
        if waiting:
            if line.strip() == waiting:
                waiting, ended = "", True
        elif here := re.search(r"<<-?\s*(['\"]?)(\w+)\1", line):
            waiting = here[2]
        bare = re.sub(r"\s#.*", "", _QUOTED.sub("", "\n".join(opened)))
        if not waiting and (ended or line.lstrip().startswith("#") or not re.search("['\"]", bare)):
            found.append("\n".join(opened))
            opened = []
        elif len(opened) > _OPEN:  # never closed: every line for itself
            found += opened
            opened, waiting = [], ""
    return found + opened


def words(text: str) -> list[str]:
    try:
        return shlex.split(text, comments=True)
    except ValueError:
        return text.split()


def assignments(given: list[str]) -> tuple[dict[str, str], list[str]]:
    """`A=1 B=2 make test` → ({"A": "1", "B": "2"}, ["make", "test"]); `env A=1 make` the same."""
    env: dict[str, str] = {}
    rest = given[1:] if given[:1] == ["env"] and len(given) > 1 and not given[1].startswith("-") else given
    while rest and (found := re.match(r"^([A-Za-z_]\w*)=(.*)$", rest[0], re.DOTALL)):
        env[found[1]] = found[2]
        rest = rest[1:]
    return env, rest


def expanded(given: list[str], env: Mapping[str, str]) -> list[str]:
    """Words with the variables that are known filled in: `django==${DJANGO}`; others stay as they are."""
    return [re.sub(r"\$(?:(\w+)|\{(\w+)\})", lambda name: env.get(name[1] or name[2], name[0]), word) for word in given]


def subshell(text: str, env: Mapping[str, str], cwd: str | None) -> str:
    """`text` with its own environment and folder, as text that leaves those of its surroundings alone."""
    if not env and cwd is None:
        return text
    opening = ["("]
    if cwd is not None:
        opening.append(f"cd {shlex.quote(cwd)}")
    opening += [f"export {name}={shlex.quote(value)}" for name, value in env.items()]
    return "\n".join([*opening, text, ")"])


def from_folder(cwd: str, wanted: str) -> str | None:
    """How a folder is written from another one; None where they are the same."""
    return None if posixpath.normpath(cwd) == posixpath.normpath(wanted) else posixpath.relpath(wanted, cwd)
