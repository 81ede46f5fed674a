"""The debugger's tools. Each runs in the sandbox, on a throw-away copy, and answers with bounded text.

A wrong call is answered with a sentence for the model. The output of a tool can be hostile.
"""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from agent.contract.outcome import Iteration
from agent.contract.verdicts import Check, VerdictId
from agent.debugger.calls import TOOLS, ToolCall
from agent.edits.changes import EditProblem, read_text
from agent.guest.text import clean
from agent.prompts.failures import condensed
from agent.proposer import Situation
from agent.source.outline import Definition, Module
from sandbox.base import KIB, Command, DeadlinePassed, LimitExceeded

LONGEST = 3_000  # characters of one answer
SNIPPET, TEST, SEARCH = 20.0, 60.0, 20.0  # seconds
LINES, MATCHES, CALLERS = 120, 30, 6


@dataclass(frozen=True, slots=True)
class Toolbox:
    """Tools for one diagnosis. Raises only `SandboxLost`; every other error becomes an answer."""

    situation: Situation
    history: Sequence[Iteration] = ()

    async def answer(self, call: ToolCall) -> str:
        """The call's output, cleaned, at most `LONGEST` characters."""
        tools: dict[str, Callable[[ToolCall], Awaitable[str]]] = {
            "read_span": self._read_span,
            "search": self._search,
            "run_snippet": self._run_snippet,
            "inspect_function": self._inspect_function,
            "run_test": self._run_test,
            "diff_iterations": self._diff_iterations,
        }
        if call.name not in tools:
            return f"There is no tool {call.name}; the tools are {', '.join(TOOLS)}."
        try:
            answer = await tools[call.name](call)
        except DeadlinePassed as passed:
            answer = f"The call was stopped after {passed.seconds:.0f} s."
        except LimitExceeded as error:
            answer = f"The call was stopped: {error}."
        return clean(answer, LONGEST) or "(nothing)"

    async def _read_span(self, call: ToolCall) -> str:
        path = call.arguments.get("path", "")
        text = await read_text(self.situation.sandbox.base, path)
        if text is None:
            return f"There is no file {path}."
        if isinstance(text, EditProblem):
            return text.sentence
        lines = text.split("\n")
        first = max(1, min(_number(call.arguments.get("first"), 1), len(lines)))
        wanted = min(_number(call.arguments.get("last"), first + 60), len(lines))
        last = max(first, min(wanted, first + LINES))
        shown, left = first - 1, LONGEST - len(path) - 120  # leaves room for the heading
        while shown < last and (left := left - len(lines[shown]) - 1) >= 0:
            shown += 1
        if shown < first:
            return f"{path}, line {first} is too long to show in full; it begins:\n{lines[first - 1][: LONGEST // 2]}"
        more = f" (output limit; continue from line {shown + 1})" if shown < wanted else ""
        return f"{path}, lines {first}-{shown} of {len(lines)}{more}\n" + "\n".join(lines[first - 1 : shown])

    async def _search(self, call: ToolCall) -> str:
        wanted = call.arguments.get("text", "")
        if not wanted.strip():
            return "Give the text to search for."
        found = await self._grep(wanted, regex=False) or await self._grep(wanted, regex=True)
        return "\n".join(f"{path}:{line}: {text}" for path, line, text in found) or "No line contains this text."

    async def _grep(self, pattern: str, *, regex: bool, limit: int = MATCHES) -> list[tuple[str, int, str]]:
        runner = self.situation.runner
        await runner.prepare()
        async with self.situation.sandbox.candidate() as workspace:
            request = json.dumps({"pattern": pattern[:300], "regex": regex, "limit": limit})
            command = Command((workspace.python, runner.guest, "grep"), SEARCH, stdin=request.encode(), output_limit=256 * KIB)
            done = await workspace.run(command)
        try:
            rows = json.loads(done.stdout)
            return [(str(path), int(line), str(text)) for path, line, text in rows] if isinstance(rows, list) else []
        except (ValueError, TypeError, RecursionError):
            return []

    async def _run_snippet(self, call: ToolCall) -> str:
        code = call.arguments.get("code", "")
        if not code.strip():
            return "Give the code in a fenced block under the TOOL line."
        check = self.situation.oracle.checks[0]
        async with self.situation.sandbox.candidate() as workspace:
            command = Command(
                (workspace.python, "-c", code), SNIPPET, cwd=check.cwd, env={**check.outer, **check.env}, output_limit=32 * KIB
            )
            done = await workspace.run(command)
        printed = (done.stdout + b"\n" + done.stderr).decode("utf-8", "replace").strip()
        return printed if done.exit_code == 0 else f"{printed}\n(exit code {done.exit_code})"

    async def _inspect_function(self, call: ToolCall) -> str:
        """The function's signature, docstring and callers, read from the source without importing it."""
        name = call.arguments.get("name", "").split("(")[0].strip().replace("::", ".")
        path, _, own = name.rpartition("/")[2].rpartition(".")
        if not own.isidentifier():
            return f"{name!r} is not the name of a function."
        found = []
        for where, line, _ in await self._grep(rf"^\s*(?:async\s+)?(?:def|class)\s+{re.escape(own)}\b", regex=True, limit=5):
            text = await read_text(self.situation.sandbox.base, where)
            if isinstance(text, str) and (definition := Module(where, text).around(line)) is not None:
                found.append(_described(where, definition))
        if not found:
            return f"No function or class named {own} was found."
        if path and (exact := [each for each in found if f"{path.rpartition('.')[2]}.{own}" in each]):
            found = exact
        callers = [
            f"{where}:{line}: {text}"
            for where, line, text in await self._grep(rf"\b{re.escape(own)}\s*\(", regex=True)
            if not re.match(rf"(?:async\s+)?(?:def|class)\s+{re.escape(own)}\b", text)
        ]
        return "\n\n".join([*found, "Called in:\n" + ("\n".join(callers[:CALLERS]) or "no call was found")])

    async def _run_test(self, call: ToolCall) -> str:
        id_ = VerdictId(call.arguments.get("id", "").strip())
        known = {
            check.name: run for check in self.situation.oracle.checks for run in self.situation.red if run.check == check.name
        }
        check = next((check for check in self.situation.oracle.checks if id_ in known[check.name].verdicts), None)
        if check is None:
            similar = [str(each) for run in known.values() for each in run.verdicts if str(id_) and str(id_) in each]
            hint = f"; did you mean {', '.join(similar[:5])}?" if similar else "."
            return f"No check has a test {id_}{hint}"
        return await self._verdict(check, id_)

    async def _verdict(self, check: Check, id_: VerdictId) -> str:
        async with self.situation.sandbox.candidate() as workspace:
            run = await self.situation.runner.run(workspace, check, only=frozenset({id_}), timeout=min(TEST, check.timeout))
        verdict = run.verdicts.get(id_)
        if verdict is None:
            return f"The test gave no verdict ({run.ending}): {run.output[-1000:]}"
        details = next((failure.details for failure in run.failures if failure.id == id_), "")
        printed = f"\n--- printed\n{run.output[-800:]}" if run.output and verdict.red else ""
        return f"{id_} {verdict.value}\n" + "\n".join(condensed(details)) + printed

    async def _diff_iterations(self, call: ToolCall) -> str:
        if not self.history:
            return "No change has been tried yet."
        wanted = {_number(each, 0) for each in call.arguments.values()}
        chosen = [each for at, each in enumerate(self.history, 1) if at in wanted] or list(self.history[-2:])
        share = LONGEST // max(1, len(chosen)) - 300
        return "\n\n".join(f"{each.title}: {each.result[:250]}\n{each.diff[:share]}" for each in chosen)


def _described(path: str, definition: Definition) -> str:
    doc = "\n".join(definition.docstring.split("\n")[:12])
    return f"{path}:{definition.first}-{definition.last} {definition.name}\n{definition.signature}" + (
        f"\n{doc}" if doc else ""
    )


def _number(text: object, otherwise: int) -> int:
    digits = re.search(r"\d{1,7}", str(text or ""))
    return int(digits[0]) if digits else otherwise
