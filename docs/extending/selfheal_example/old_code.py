"""A rung: people often leave the working code in a comment above the broken code. This rung restores it."""

from __future__ import annotations

from agent.contract.proposal import Candidate, FileChange
from agent.edits.changes import EditProblem, read_text
from agent.proposer import Proposal, Situation


class OldCode:
    """The entry point in `selfheal.rungs`. Created once, without arguments, when a worker starts."""

    rung = "old-code"  # its name in the log and in `rungs` of .github/selfheal.yml
    before = "patterns"  # cheaper than the search, so it comes first

    def can_help(self, situation: Situation) -> str | None:
        """None if the rung can help, otherwise the reason why not, as a clause for the log."""
        return None if any(span.path.endswith(".py") for span in situation.suspects) else "no Python file is suspicious"

    async def propose(self, situation: Situation) -> Proposal:
        """A candidate for every suspicious line with commented-out code right above it, most suspicious first."""
        candidates: list[Candidate] = []
        for path in dict.fromkeys(span.path for span in situation.suspects):
            text = await read_text(situation.sandbox.base, path)
            if text is None or isinstance(text, EditProblem):
                continue
            suspicious = {
                line for span in situation.suspects if span.path == path for line in range(span.first_line, span.last_line + 1)
            }
            candidates += _restored(path, text, suspicious)
        return Proposal(tuple(candidates), tried=len(candidates), exhausted=True)


def _restored(path: str, text: str, suspicious: set[int]) -> list[Candidate]:
    lines = text.splitlines(keepends=True)
    found = []
    for number, line in enumerate(lines, 1):
        above = number - 1
        while number in suspicious and above > 0 and lines[above - 1].lstrip().startswith("# "):
            indent = line[: len(line) - len(line.lstrip())]
            old = lines[above - 1].lstrip()[2:]
            changed = "".join([*lines[: number - 1], f"{indent}{old}", *lines[number:]])
            title = f"puts back `{old.strip()[:60]}` ({path}:{number})"
            found.append(Candidate("old-code", (FileChange(path, text, changed),), title, prior=0.6))
            above -= 1
    return found
