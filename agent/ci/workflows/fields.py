"""Converts checked nodes of workflows and actions to values: texts, flags, steps and their ids.

Shapes were checked before; only what they cannot express is refused here. Raises `WorkflowError`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from agent.ci.workflows.document import Items, Keys, Node, Scalar, Word, WorkflowError, text_of
from agent.ci.workflows.model import WorkflowStep
from agent.ci.workflows.shapes import Shape, check

_ID = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,98}", re.ASCII)


def text(node: Node | None) -> str | None:
    return text_of(node.value) if isinstance(node, Scalar) else None


def word(node: Node | None) -> Word:
    return node.value if isinstance(node, Scalar) else None


def texts(node: Node | None) -> dict[str, str]:
    return {entry.key: text(entry.value) or "" for entry in node.entries} if isinstance(node, Keys) else {}


def words(node: Node | None) -> dict[str, Word]:
    return {entry.key: word(entry.value) for entry in node.entries} if isinstance(node, Keys) else {}


def listed(node: Node | None) -> tuple[str, ...]:
    """The texts of a list, or the only one."""
    if isinstance(node, Items):
        return tuple(text(item) or "" for item in node.nodes)
    return () if node is None else (text(node) or "",)


def flag(node: Node | None, otherwise: bool) -> bool | str:
    value = word(node)
    return value if isinstance(value, bool | str) else otherwise


def number(node: Node | None) -> float | str | None:
    value = word(node)
    return value if isinstance(value, int | float | str) else None


def check_id(name: str, taken: set[str], line: int) -> None:
    """Raises `WorkflowError` for an id of a job or a step that GitHub would not take; adds it to `taken`."""
    if not _ID.fullmatch(name):
        raise WorkflowError(
            f"The identifier '{name[:100]}' is invalid: it may hold letters, digits, '_' and '-' only,"
            " must begin with a letter or '_' and be shorter than 100 characters.",
            line,
        )
    if name.startswith("__"):
        raise WorkflowError(f"The identifier '{name}' is invalid: those that begin with '__' are reserved.", line)
    if name in taken:
        raise WorkflowError(f"The identifier '{name}' may not be used more than once.", line)
    taken.add(name)


def steps(node: Node | None, shapes: Mapping[str, Shape]) -> tuple[WorkflowStep, ...]:
    """The steps of a job or an action; `shapes` has one for those with `run` and one for those with `uses`."""
    taken: set[str] = set()
    return tuple(_step(item, i, shapes, taken) for i, item in enumerate(node.nodes, 1)) if isinstance(node, Items) else ()


def _step(node: Node, number_: int, shapes: Mapping[str, Shape], taken: set[str]) -> WorkflowStep:
    assert isinstance(node, Keys)
    kind = next((key for key in ("run", "uses") if node.get(key) is not None), None)
    if kind is None:
        raise WorkflowError("A step needs one of these properties: run, uses.", node.line)
    check(node, shapes[kind])
    own = node.get("id")
    if own is not None:
        check_id(text(own) or "", taken, own.line)
    return WorkflowStep(
        number=number_,
        id=text(own),
        name=text(node.get("name")),
        condition=text(node.get("if")),
        run=text(node.get("run")),
        uses=text(node.get("uses")),
        inputs=texts(node.get("with")),
        env=texts(node.get("env")),
        shell=text(node.get("shell")),
        working_directory=text(node.get("working-directory")),
        continue_on_error=flag(node.get("continue-on-error"), otherwise=False),
        timeout_minutes=number(node.get("timeout-minutes")),
        line=node.line,
    )
